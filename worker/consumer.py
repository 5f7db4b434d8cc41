"""The Kafka side of the source: one consumer on a thread of its own, which never waits for a call."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from worker.buffer import Buffer
from worker.core.offsets import OffsetTracker, Partition, Ticket
from worker.core.pauses import Pauses
from worker.messages import AnyMessage, Errors, is_sound, made, partition_of, record_of
from worker.ports import Logs, SourceEvents, Taken

log = logging.getLogger(__name__)

_MOST_A_POLL = 500
_POLL_SECONDS = 0.1
_COMMIT_SECONDS = 1.0
# A commit whose answer has not come by then is sent again.
_COMMIT_PATIENCE_SECONDS = 30.0
# A full buffer is waited for this long before partitions are paused, since a pause throws prefetched messages away.
_PAUSE_AFTER_SECONDS = 1.0
# Finished messages behind an unfinished one are cheap, but not free: at this many a partition waits for its head.
_LARGEST_SPAN = 50_000
_BROKER_SECONDS = 5.0


class KafkaSource:
    """Messages of the subscribed topics, in a bounded buffer.

    `take`, `done`, `owns` and `stop` belong to the event loop; the rest runs on the thread that `start` makes.
    `logs` names the log of a partition, for the ordering of versions.
    """

    def __init__(
        self,
        config: dict[str, str],
        subscription: str,
        events: SourceEvents,
        logs: Logs,
    ) -> None:
        errors = {"error_cb": Errors(), "on_commit": self._on_commit}
        self._consumer = made(lambda: Consumer({**config, **errors}, logger=logging.getLogger("librdkafka")))
        self._subscription = subscription
        self._events = events
        self._logs = logs
        self._tracker = OffsetTracker()
        self._lock = threading.Lock()
        self._buffer = Buffer()
        self._closing = threading.Event()
        self._pauses = Pauses()
        self._expected: dict[Partition, int] = {}
        self._next_commit = 0.0
        self._commit_sent: float | None = None
        self._joined = False
        self._thread = threading.Thread(target=self._run, name="kafka-consumer", daemon=True)
        self.last_poll = time.monotonic()

    def start(self) -> None:
        """Begin to consume; call it from the running event loop."""
        self._buffer.bind(asyncio.get_running_loop())
        self._thread.start()

    async def take(self, most: int) -> list[Taken]:
        """Wait for messages and return up to `most`; nothing once stopped. Raises what ended the thread."""
        return await self._buffer.take(most)

    def stop(self) -> None:
        """Take no more messages; the thread goes on polling, so that the partitions stay ours during the drain."""
        self._buffer.close()

    def done(self, ticket: Ticket) -> None:
        """Let a finished message's offset be committed."""
        with self._lock:
            self._tracker.done(ticket)

    def owns(self, ticket: Ticket) -> bool:
        """Whether this ticket can still move a commit."""
        with self._lock:
            return self._tracker.owns(ticket)

    @property
    def partitions(self) -> dict[Partition, int | None]:
        """The partitions owned now and what has been committed for them."""
        with self._lock:
            return self._tracker.positions

    @property
    def oldest(self) -> float | None:
        """Unix time at which the oldest unfinished message was published, or None when nothing is open."""
        with self._lock:
            return self._tracker.oldest

    @property
    def member(self) -> bool:
        """Whether the group has taken this consumer in."""
        return self._joined

    async def close(self, seconds: float) -> bool:
        """Commit what is finished and leave the group; says whether that was done in time."""
        self._closing.set()
        self._buffer.wake()
        await asyncio.to_thread(self._thread.join, seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                [self._subscription], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            while not self._closing.is_set():
                self._turn()
            self._commit_now()
            self._consumer.close()
        except Exception as error:
            log.exception("consumer.broken", extra={"what": type(error).__name__})
            self._buffer.fail(error)

    def _turn(self) -> None:
        """One round: read if there is room, keep the group's membership in any case, commit when due."""
        room = self._buffer.room
        if room <= 0 and not self._pauses and self._buffer.wait_for_room(_PAUSE_AFTER_SECONDS):
            return
        self._regulate(full=room <= 0)
        self._poll(max(room, 1))
        if time.monotonic() >= self._next_commit:
            self._commit()

    def _poll(self, room: int) -> None:
        first = self._consumer.consume(1, _POLL_SECONDS)
        self.last_poll = time.monotonic()
        self._joined = self._joined or bool(self._consumer.memberid())
        rest = self._consumer.consume(min(room, _MOST_A_POLL), 0) if first and room > 1 else []
        if messages := [message for message in (*first, *rest) if is_sound(message)]:
            with self._lock:
                taken = [self._track(message) for message in messages if self._is_owned(message)]
            self._buffer.extend(taken)

    def _is_owned(self, message: AnyMessage) -> bool:
        return self._tracker.is_owned(partition_of(message))

    def _track(self, message: AnyMessage) -> Taken:
        partition = partition_of(message)
        record = record_of(message, self._logs.log_name(*partition))
        expected = self._expected.pop(partition, None)
        if expected is not None and expected != record.offset:
            self._events.skipped(partition, expected, record.offset)
        at = record.timestamp.timestamp() if record.timestamp else 0.0
        return Taken(record, self._tracker.track(partition, record.offset, at))

    def _regulate(self, *, full: bool) -> None:
        """Pause every partition while the buffer is full, and those whose unfinished head holds back too much."""
        with self._lock:
            owned = self._tracker.partitions
            wanted = {p for p in owned if full or self._tracker.span(p) > _LARGEST_SPAN}
        pause, resume = self._pauses.due(owned, wanted)
        if pause and self._try(self._consumer.pause, pause):
            self._pauses.did_pause(pause)
        if resume and self._try(self._consumer.resume, resume):
            self._pauses.did_resume(resume)

    def _try(self, act: Callable[[list[TopicPartition]], object], partitions: Iterable[Partition]) -> bool:
        try:
            act([TopicPartition(*partition) for partition in partitions])
        except KafkaException as error:
            # The partition has left between our look and the call; the next round looks again.
            log.debug("consumer.not_regulated", extra={"what": error.args[0].name()})
            return False
        return True

    def _commit(self) -> None:
        now = time.monotonic()
        self._next_commit = now + _COMMIT_SECONDS
        if self._commit_sent is not None and now - self._commit_sent < _COMMIT_PATIENCE_SECONDS:
            return
        with self._lock:
            offsets = self._tracker.committable()
        if offsets and self._commit_with(offsets, asynchronous=True):
            self._commit_sent = now

    def _commit_now(self, partitions: Iterable[Partition] | None = None) -> None:
        with self._lock:
            offsets = self._tracker.committable(partitions)
        if offsets:
            self._commit_with(offsets, asynchronous=False)

    def _commit_with(self, offsets: dict[Partition, int], *, asynchronous: bool) -> bool:
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        try:
            if asynchronous:
                self._consumer.commit(offsets=wanted, asynchronous=True)
            else:
                self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            self._events.commit_failed(error.args[0].name())
            return False
        return True

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._commit_sent = None
        if error is not None:
            self._events.commit_failed(error.name())
            return
        with self._lock:
            self._tracker.committed({(p.topic, p.partition): p.offset for p in partitions if p.error is None})

    def _on_assign(self, _consumer: Consumer, assigned: list[TopicPartition]) -> None:
        partitions = [(p.topic, p.partition) for p in assigned]
        with self._lock:
            self._tracker.assign(partitions)
        self._pauses.assign(partitions)
        self._logs.learn(topic for topic, _ in partitions)
        committed = self._committed(assigned)
        self._expected |= committed
        with self._lock:
            self._tracker.committed(committed)
        self._events.rebalanced("assigned", partitions)

    def _committed(self, assigned: list[TopicPartition]) -> dict[Partition, int]:
        if not assigned:
            return {}
        try:
            found = self._consumer.committed(assigned, timeout=_BROKER_SECONDS)
        except KafkaException:
            return {}
        return {(p.topic, p.partition): p.offset for p in found if p.error is None and p.offset >= 0}

    def _on_revoke(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        partitions = [(p.topic, p.partition) for p in revoked]
        self._commit_now(partitions)
        self._forget(partitions)
        self._events.rebalanced("revoked", partitions)

    def _on_lost(self, _consumer: Consumer, lost: list[TopicPartition]) -> None:
        partitions = [(p.topic, p.partition) for p in lost]
        self._forget(partitions)
        self._events.rebalanced("lost", partitions)

    def _forget(self, partitions: list[Partition]) -> None:
        with self._lock:
            self._tracker.forget(partitions)
        self._buffer.purge(set(partitions))
        self._pauses.forget(partitions)
        for partition in partitions:
            self._expected.pop(partition, None)
