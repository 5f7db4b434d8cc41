"""Which partitions bring messages: those without room are paused, topics that wait are put by."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from worker.buffer import Buffer
from worker.commits import Commits
from worker.core.offsets import OffsetTracker, Partition
from worker.core.parking import Parking
from worker.core.pauses import Pauses

log = logging.getLogger(__name__)

# A full buffer is waited for this long before partitions are paused, since a pause throws prefetched messages away.
# Behind those of a full topic, messages of another may lie in the client: this often a pause lets them pass at least,
# and at each fill while they do come.
_PAUSE_AFTER_SECONDS = 1.0
_LATELY_SECONDS = 1.0
# Finished messages behind an unfinished one are cheap, but not free: at this many a partition waits for its head.
_LARGEST_SPAN = 50_000
_BROKER_SECONDS = 5.0


class Flow:
    """Pauses and parking of one consumer, on its thread, save that anybody may speak to `parking`.

    `lock` guards the tracker; `expected` are the offsets that the next message of a partition should have.
    """

    def __init__(self, tracker: OffsetTracker, lock: threading.Lock, buffer: Buffer, commits: Commits) -> None:
        self._tracker = tracker
        self._lock = lock
        self._buffer = buffer
        self._commits = commits
        self._pauses = Pauses()
        # Whether anything is paused for want of room.
        self.holding = False
        # When each topic last had messages waiting, and when others were last let pass.
        self._seen: dict[str, float] = {}
        self._looked = 0.0
        self.parking = Parking()
        self.expected: dict[Partition, int] = {}

    def assign(self, partitions: Collection[Partition]) -> None:
        """Take note of partitions that have arrived."""
        self._pauses.assign(partitions)
        self.parking.assign(partitions)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Let partitions go that have left."""
        self._pauses.forget(partitions)
        self.parking.forget(partitions)
        for partition in partitions:
            self.expected.pop(partition, None)

    def regulate(self, consumer: Consumer) -> bool:
        """Settle what may come; False when room was waited for instead, so that the next round is to look again."""
        self._put_by(consumer)
        self._take_up(consumer)
        room, full = self._buffer.room, self._buffer.full
        holding = room <= 0 or bool(full)
        if holding and not self.holding and self._may_wait() and self._buffer.wait_for_room(_PAUSE_AFTER_SECONDS):
            return False
        self.holding = holding
        self._pause(consumer, lambda topic: room <= 0 or topic in full)
        return True

    def _may_wait(self) -> bool:
        """Whether no other topic's messages can be held up by waiting for room."""
        now = time.monotonic()
        with self._lock:
            topics = {topic for topic, _ in self._tracker.partitions}
        self._seen = {topic: at for topic, at in self._seen.items() if now - at < _LATELY_SECONDS}
        self._seen |= dict.fromkeys(self._buffer.waiting, now)
        if len(topics) < 2 or (len(self._seen) < 2 and now - self._looked < _LATELY_SECONDS):
            return True
        self._looked = now
        return False

    def _put_by(self, consumer: Consumer) -> None:
        """Park what the orders name: what is open of it changes no commit any more, what is buffered is dropped."""
        with self._lock:
            owned = self._tracker.partitions
        if parked := self.parking.park(owned):
            self._commits.now(consumer, parked)
            with self._lock:
                self._tracker.restart(parked)
            self._buffer.purge(parked)

    def _take_up(self, consumer: Consumer) -> None:
        """Read on from the commit where parking has ended; without the broker's word it goes on."""
        due = self.parking.due()
        committed = committed_by(consumer, due) if due else None
        if committed is None:
            return
        with self._lock:
            self._tracker.committed(committed)
        for partition in due:
            at = TopicPartition(*partition, committed.get(partition, OFFSET_BEGINNING))
            if _takes(lambda at=at: consumer.seek(at)):  # type: ignore[misc]
                self.parking.forget([partition])
        self.expected |= {p: offset for p, offset in committed.items() if p not in self.parking}

    def _pause(self, consumer: Consumer, is_full: Callable[[str], bool]) -> None:
        """Pause partitions that are full or parked, and those whose unfinished head holds back too much."""
        with self._lock:
            owned = self._tracker.partitions
            wanted = {p for p in owned if p in self.parking or is_full(p[0]) or self._tracker.span(p) > _LARGEST_SPAN}
        pause, resume = self._pauses.due(owned, wanted)
        if pause and _takes(lambda: consumer.pause(_places(pause))):
            self._pauses.did_pause(pause)
        if resume and _takes(lambda: consumer.resume(_places(resume))):
            self._pauses.did_resume(resume)


def committed_by(consumer: Consumer, partitions: Iterable[Partition]) -> dict[Partition, int] | None:
    """What the group has committed, where it has; None without an answer."""
    wanted = _places(partitions)
    if not wanted:
        return {}
    try:
        found = consumer.committed(wanted, timeout=_BROKER_SECONDS)
    except KafkaException:
        return None
    if any(p.error is not None for p in found):
        return None
    return {(p.topic, p.partition): p.offset for p in found if p.offset >= 0}


def _takes(act: Callable[[], object]) -> bool:
    try:
        act()
    except KafkaException as error:
        # The partition has left between our look and the call; the next round looks again.
        log.debug("consumer.not_regulated", extra={"what": error.args[0].name()})
        return False
    return True


def _places(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(*partition) for partition in partitions]
