"""What is asked of Kafka: the letters of the dead-letter topic, messages at their places, and what waits unread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from confluent_kafka import KafkaException, TopicCollection, TopicPartition

from control.dead_letters.letters import Place, Raw
from control.dead_letters.ranges import BROKER_SECONDS, Partition, Ranges
from control.topics import admin
from schemas.settings import KafkaSettings

# A gap between two wanted messages that is cheaper to read over than to jump over.
_JUMP = 2_000
_BEYOND = 2**63 - 1


class Reader:
    """Two consumers, so that single messages can be looked up while the letters stream by.

    `group` is the workers', asked only for what it has committed. Raises what `Ranges` raises.
    """

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self._stream, self._look = Ranges(settings, group), Ranges(settings, group)
        brokers = admin(settings)
        self._admin = brokers.client
        self._topics = {name: len(topic.partitions) for name, topic in brokers.topics(BROKER_SECONDS).items()}

    @property
    def topics(self) -> frozenset[str]:
        """The topics that there are."""
        return frozenset(self._topics)

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        """The ids of these topics, by name: what `results.log` begins with. One that is not told is its own name."""
        wanted = sorted(set(names) & self.topics)
        if not wanted:
            return {}
        found = self._admin.describe_topics(TopicCollection(wanted), request_timeout=BROKER_SECONDS)
        return {name: _id(name, future) for name, future in found.items()}

    def letters(self, topic: str, since: datetime | None = None) -> Iterator[Raw]:
        """Every message of a topic from an instant on, up to its end as it is now."""
        starts = self._starts(topic, since) if since else {}
        return self._stream.read(self._ranges(self._stream, topic, starts))

    def unread(self, topic: str) -> Iterator[Raw]:
        """The messages of a topic that the group has not committed yet, up to the end as it is now."""
        partitions = [TopicPartition(topic, number) for number in range(self._topics[topic])]
        committed = self._look.ask(topic, lambda: self._look.consumer.committed(partitions, timeout=BROKER_SECONDS))
        return self._look.read(self._ranges(self._look, topic, {(p.topic, p.partition): p.offset for p in committed}))

    def at(self, places: Iterable[Place]) -> Iterator[Raw]:
        """The messages at these places; one that has expired, or never was, is left out."""
        wanted: dict[Partition, list[int]] = {}
        asked = frozenset(places)
        for place in sorted(asked, key=lambda place: (place.topic, place.partition, place.offset)):
            if place.partition < self._topics.get(place.topic, 0):
                wanted.setdefault((place.topic, place.partition), []).append(place.offset)
        for partition, offsets in wanted.items():
            for start, end in runs(offsets):
                low, high = self._look.watermarks(partition)
                found = self._look.read({partition: (max(start, low), min(end, high))})
                yield from (raw for raw in found if raw.place in asked)

    def close(self) -> None:
        """Let go of the brokers."""
        self._stream.consumer.close()
        self._look.consumer.close()

    def _ranges(self, by: Ranges, topic: str, starts: dict[Partition, int]) -> dict[Partition, tuple[int, int]]:
        ends = {(topic, number): by.watermarks((topic, number)) for number in range(self._topics[topic])}
        return {partition: (max(low, starts.get(partition, low)), high) for partition, (low, high) in ends.items()}

    def _starts(self, topic: str, since: datetime) -> dict[Partition, int]:
        at = int(since.timestamp() * 1000)
        asked = [TopicPartition(topic, number, at) for number in range(self._topics[topic])]
        found = self._stream.ask(
            topic, lambda: self._stream.consumer.offsets_for_times(asked, timeout=BROKER_SECONDS)
        )
        # Where nothing is that young, the answer is a number below zero.
        return {(p.topic, p.partition): p.offset if p.offset >= 0 else _BEYOND for p in found}


def runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Join ascending offsets into half-open ranges that are worth reading in one go."""
    start = last = offsets[0]
    for offset in offsets[1:]:
        if offset - last > _JUMP:
            yield start, last + 1
            start = offset
        last = offset
    yield start, last + 1


def _id(name: str, future: object) -> str:
    try:
        return str(future.result().topic_id)  # type: ignore[attr-defined]
    except KafkaException:
        return name
