"""The prompts topics, read by place: how far the workers have come, what lies there, what has expired before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from control.dead_letters.letters import Raw
from control.dead_letters.ranges import BROKER_SECONDS, Partition, Ranges
from schemas.settings import KafkaSettings


@dataclass(frozen=True, slots=True)
class Stretch:
    """One partition: the first offset there, the one the group reads next, and the one after the last."""

    low: int
    next: int
    high: int

    @staticmethod
    def of(low: int, committed: int, high: int) -> Stretch:
        """Put it together; a group that has committed nothing begins at the start, and never behind the end."""
        return Stretch(low, min(max(committed, 0), high), high)

    @property
    def read(self) -> tuple[int, int]:
        """What the workers have dealt with and is still there."""
        return self.low, max(self.low, self.next)

    @property
    def unread(self) -> tuple[int, int]:
        """What waits for the workers."""
        return max(self.low, self.next), self.high

    @property
    def expired(self) -> int:
        """How many offsets expired before anybody read them."""
        return max(0, self.low - self.next)


class Log:
    """Reads as nobody's member and commits nothing. Raises what `Ranges` raises."""

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self._ranges = Ranges(settings, group)

    def close(self) -> None:
        """Let go of the brokers."""
        self._ranges.consumer.close()

    def stretches(self, topics: Iterable[str]) -> dict[Partition, Stretch]:
        """How far the group has come in each partition, asked before anything is compared."""
        return {partition: stretch for topic in topics for partition, stretch in self._of(topic)}

    def messages(self, ranges: dict[Partition, tuple[int, int]]) -> Iterator[Raw]:
        """The messages in half-open ranges of offsets."""
        return self._ranges.read(ranges)

    def _of(self, topic: str) -> Iterator[tuple[Partition, Stretch]]:
        consumer = self._ranges.consumer
        found = self._ranges.ask(topic, lambda: consumer.list_topics(topic, BROKER_SECONDS).topics[topic])
        places = [TopicPartition(topic, number) for number in found.partitions]
        for place in self._ranges.ask(topic, lambda: consumer.committed(places, BROKER_SECONDS)):
            partition = (topic, place.partition)
            low, high = self._ranges.watermarks(partition)
            yield partition, Stretch.of(low, place.offset, high)
