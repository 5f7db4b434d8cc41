"""Read back what was published."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.fleet import wait_for

DEADLINE_S = 60.0
# A few messages a request, one request at a time: whatever the machine, there is a middle to be met in.
SLOW = "batch.num.messages=5,max.in.flight=1,queue.buffering.max.messages=200"


def make_topic(servers: str, topic: str, partitions: int = 3, config: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until it is there, and each of its partitions has a leader that answers."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    try:
        for partition in range(partitions):
            wait_for(partial(_answers, consumer, TopicPartition(topic, partition)), DEADLINE_S)
    finally:
        consumer.close()


def _answers(consumer: Consumer, place: TopicPartition) -> bool:
    try:
        return consumer.get_watermark_offsets(place, timeout=DEADLINE_S) is not None
    except KafkaException:
        return False


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


def wait_until_it_holds_some(servers: str, topic: str) -> None:
    """Wait for the first message of a topic."""
    wait_for(lambda: bool(read_all(servers, topic)), 200, lambda: "nothing was published")
