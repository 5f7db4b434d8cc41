"""The Kafka side of the source: one consumer on a thread of its own, which never waits for a call."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping

from confluent_kafka import Consumer, TopicPartition

from worker.buffer import Buffer
from worker.commits import Commits
from worker.core.offsets import OffsetTracker, Partition, Ticket
from worker.flow import Flow, committed_by
from worker.messages import AnyMessage, Errors, is_sound, made, partition_of, record_of
from worker.ports import Logs, SourceEvents, Taken, any_number

log = logging.getLogger(__name__)

_MOST_A_POLL = 500
_POLL_SECONDS = 0.1
# While partitions are paused for want of room, room may come at any moment.
_HOLDING_POLL_SECONDS = 0.02


class KafkaSource:
    """Messages of the subscribed topics, in a bounded buffer.

    What the port `Source` names belongs to the event loop; the rest runs on the thread that `start` makes.
    `logs` names the log of a partition, for the ordering of versions.
    """

    def __init__(
        self,
        config: dict[str, str],
        subscription: str,
        events: SourceEvents,
        logs: Logs,
    ) -> None:
        self._tracker = OffsetTracker()
        self._lock = threading.Lock()
        self._commits = Commits(self._tracker, self._lock, events)
        errors = {"error_cb": Errors(), "on_commit": self._commits.answered}
        self._consumer = made(lambda: Consumer({**config, **errors}, logger=logging.getLogger("librdkafka")))
        self._subscription = subscription
        self._events = events
        self._logs = logs
        self._buffer = Buffer()
        self._closing = threading.Event()
        self._flow = Flow(self._tracker, self._lock, self._buffer, self._commits)
        self._joined = False
        self._thread = threading.Thread(target=self._run, name="kafka-consumer", daemon=True)
        self.last_poll = time.monotonic()

    def start(self) -> None:
        """Begin to consume; call it from the running event loop."""
        self._buffer.bind(asyncio.get_running_loop())
        self._thread.start()

    async def take(self, most: int, allowed: Callable[[str], int] = any_number) -> list[Taken]:
        """Wait for messages and return up to `most`; nothing once stopped. Raises what ended the thread."""
        return await self._buffer.take(most, allowed)

    def look(self) -> None:
        """Let a taker that waits ask again for what it is allowed now."""
        self._buffer.look()

    @property
    def waiting(self) -> Collection[str]:
        """The topics that have messages ready to be taken."""
        return self._buffer.waiting

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Give topics turns by these weights."""
        self._buffer.weigh(weights)

    def park(self, topics: Collection[str]) -> None:
        """Put these topics by, and take up again those that are no longer named; the thread does it."""
        self._flow.parking.ask(topics)

    def reread(self, topics: Collection[str]) -> None:
        """Read these topics again from where they are committed; the thread does it."""
        self._flow.parking.ask_again(topics)

    @property
    def parked(self) -> int:
        """How many partitions are put by."""
        return len(self._flow.parking)

    def stop(self) -> None:
        """Take no more messages; the thread goes on polling, so that the partitions stay ours during the drain."""
        self._buffer.close()

    def done(self, ticket: Ticket) -> None:
        """Let a finished message's offset be committed."""
        with self._lock:
            self._tracker.done(ticket)

    def pass_over(self, ticket: Ticket) -> None:
        """Leave a message for later."""
        with self._lock:
            self._tracker.pass_over(ticket)

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
            self._commits.now(self._consumer)
            self._consumer.close()
        except Exception as error:
            log.exception("consumer.broken", extra={"what": type(error).__name__})
            self._buffer.fail(error)

    def _turn(self) -> None:
        """One round: read if there is room, keep the group's membership in any case, commit when due."""
        if self._flow.regulate(self._consumer):
            self._poll(self._buffer.step)
            self._commits.due(self._consumer)

    def _poll(self, room: int) -> None:
        first = self._consumer.consume(1, _HOLDING_POLL_SECONDS if self._flow.holding else _POLL_SECONDS)
        self.last_poll = time.monotonic()
        self._joined = self._joined or bool(self._consumer.memberid())
        rest = self._consumer.consume(min(room, _MOST_A_POLL), 0) if first and room > 1 else []
        if messages := [message for message in (*first, *rest) if is_sound(message)]:
            with self._lock:
                taken = [self._track(message) for message in messages if self._is_owned(message)]
            self._buffer.extend(taken)

    def _is_owned(self, message: AnyMessage) -> bool:
        partition = partition_of(message)
        return self._tracker.is_owned(partition) and partition not in self._flow.parking

    def _track(self, message: AnyMessage) -> Taken:
        partition = partition_of(message)
        record = record_of(message, self._logs.log_name(*partition))
        expected = self._flow.expected.pop(partition, None)
        if expected is not None and expected != record.offset:
            self._events.skipped(partition, expected, record.offset)
        at = record.timestamp.timestamp() if record.timestamp else 0.0
        return Taken(record, self._tracker.track(partition, record.offset, at))

    def _on_assign(self, _consumer: Consumer, assigned: list[TopicPartition]) -> None:
        partitions = [(p.topic, p.partition) for p in assigned]
        with self._lock:
            self._tracker.assign(partitions)
        self._flow.assign(partitions)
        self._logs.learn(topic for topic, _ in partitions)
        committed = committed_by(self._consumer, partitions) or {}
        self._flow.expected |= committed
        with self._lock:
            self._tracker.committed(committed)
        self._events.rebalanced("assigned", partitions)

    def _on_revoke(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        partitions = [(p.topic, p.partition) for p in revoked]
        self._commits.now(self._consumer, partitions)
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
        self._flow.forget(partitions)
