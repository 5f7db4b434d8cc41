"""Commits of what is finished without a gap: one at a time, and tried again when refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from worker.core.offsets import OffsetTracker, Partition
from worker.ports import SourceEvents

_COMMIT_SECONDS = 1.0
# A commit whose answer has not come by then is sent again.
_COMMIT_PATIENCE_SECONDS = 30.0


class Commits:
    """The commits of one consumer, on its thread; `lock` guards the tracker."""

    def __init__(self, tracker: OffsetTracker, lock: threading.Lock, events: SourceEvents) -> None:
        self._tracker = tracker
        self._lock = lock
        self._events = events
        self._next = 0.0
        self._sent: float | None = None

    def due(self, consumer: Consumer) -> None:
        """Commit when it is time; the answer comes to `answered`."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _COMMIT_SECONDS
        if self._sent is not None and now - self._sent < _COMMIT_PATIENCE_SECONDS:
            return
        if offsets := self._offsets(None):
            try:
                consumer.commit(offsets=offsets, asynchronous=True)
                self._sent = now
            except KafkaException as error:
                self._events.commit_failed(error.args[0].name())

    def now(self, consumer: Consumer, partitions: Iterable[Partition] | None = None) -> None:
        """Commit at once, of all partitions or of these, and wait for the answer."""
        if offsets := self._offsets(partitions):
            try:
                self.answered(None, consumer.commit(offsets=offsets, asynchronous=False))
            except KafkaException as error:
                self._events.commit_failed(error.args[0].name())

    def answered(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Take the broker's word on a commit."""
        self._sent = None
        if error is not None:
            self._events.commit_failed(error.name())
            return
        with self._lock:
            self._tracker.committed({(p.topic, p.partition): p.offset for p in partitions if p.error is None})

    def _offsets(self, partitions: Iterable[Partition] | None) -> list[TopicPartition]:
        with self._lock:
            found = self._tracker.committable(partitions)
        return [TopicPartition(*partition, offset) for partition, offset in found.items()]
