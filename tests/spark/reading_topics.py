"""Read back what was published."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

DEADLINE_S = 60.0


def make_topic(servers: str, topic: str, partitions: int = 3, config: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result()


def read_all(servers: str, topic: str) -> list[Message]:
    """Read every message that the topic holds now."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        ends = {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=DEADLINE_S)[1] for p in partitions
        }
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        return _read(consumer, sum(ends.values()))
    finally:
        consumer.close()


def _read(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
        for message in consumer.consume(1000, timeout=1):
            assert message.error() is None, message.error()
            found.append(message)
    return found
