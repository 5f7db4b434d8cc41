"""A log in memory, with partitions, a group that rebalances, and every commit on record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.fakes.samples import TOPIC
from worker.core.offsets import OffsetTracker, Partition, Ticket
from worker.core.turns import Turns
from worker.ports import Record, Taken, any_number

OnCommit = Callable[[Partition, int], None]


@dataclass
class FakeLog:
    """The partitions of some topics and one group's committed offsets; `on_commit` is told of each commit.

    What is not told otherwise concerns `topic`; `others` are further topics of as many partitions.
    """

    partitions: int = 1
    topic: str = TOPIC
    others: tuple[str, ...] = ()
    clock: Callable[[], float] = lambda: 1_767_225_600.0
    on_commit: OnCommit = lambda _partition, _offset: None
    records: dict[Partition, list[Record]] = field(default_factory=dict)
    committed: dict[Partition, int] = field(default_factory=dict)
    members: list[FakeSource] = field(default_factory=list)

    def __post_init__(self) -> None:
        topics = (self.topic, *self.others)
        self.records = {(topic, number): [] for topic in topics for number in range(self.partitions)}

    def publish(
        self,
        value: bytes | None,
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        topic: str | None = None,
    ) -> Record:
        """Append one message."""
        topic = topic or self.topic
        records = self.records[topic, partition]
        timestamp = datetime.fromtimestamp(self.clock(), UTC)
        record = Record(topic, partition, len(records), key, value, headers, timestamp, f"{topic}/{partition}")
        records.append(record)
        for member in self.members:
            member.arrived.set()
        return record

    def join(self, member: FakeSource) -> None:
        """Take a member in and share the partitions out anew."""
        self.members.append(member)
        self.share()

    def leave(self, member: FakeSource) -> None:
        """Let a member go."""
        if member in self.members:
            self.members.remove(member)
            member.revoke(member.owned)
            self.share()

    def share(self) -> None:
        """Give each member its part, in the order of the members."""
        count = len(self.members)
        self.assign({member: list(self.records)[nth::count] for nth, member in enumerate(self.members)})

    def assign(self, wanted: Mapping[FakeSource, Iterable[Partition]]) -> None:
        """Rebalance: all that must leave leaves before anything arrives."""
        shares = {member: set(partitions) for member, partitions in wanted.items()}
        for member, partitions in shares.items():
            member.revoke(sorted(member.owned - partitions))
        for member, partitions in shares.items():
            member.gain(sorted(partitions - member.owned))

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Store committed offsets."""
        for partition, offset in offsets.items():
            self.on_commit(partition, offset)
            self.committed[partition] = offset

    @property
    def done(self) -> bool:
        """Whether every message is committed."""
        return all(self.committed.get(partition, 0) == len(records) for partition, records in self.records.items())


class FakeSource:
    """One member of the group; commits every `commit_seconds` while `run` runs, at a revocation and at the end."""

    def __init__(self, log: FakeLog, commit_seconds: float = 1.0) -> None:
        self._log = log
        self._commit_seconds = commit_seconds
        self._tracker = OffsetTracker()
        self._positions: dict[Partition, int] = {}
        self._parked: frozenset[str] = frozenset()
        self._turns = Turns()
        self._weights: Mapping[str, float] = {}
        self._looked = False
        self._stopped = False
        self.arrived = asyncio.Event()

    @property
    def owned(self) -> set[Partition]:
        """The partitions owned now."""
        return set(self._positions)

    async def take(self, most: int, allowed: Callable[[str], int] = any_number) -> list[Taken]:
        while not self._stopped:
            self.arrived.clear()
            if taken := self._next(most, allowed):
                return taken
            self._looked = False
            await self.arrived.wait()
            if self._looked:
                break
        return []

    def look(self) -> None:
        self._looked = True
        self.arrived.set()

    @property
    def waiting(self) -> Collection[str]:
        return {partition[0] for partition in self._ready()}

    def weigh(self, weights: Mapping[str, float]) -> None:
        self._weights = weights

    def park(self, topics: Collection[str]) -> None:
        changed = frozenset(topics) ^ self._parked
        self._parked = frozenset(topics)
        self.reread(changed)

    def reread(self, topics: Collection[str]) -> None:
        again = [partition for partition in self._positions if partition[0] in topics]
        self.commit(again)
        self._tracker.restart(again)
        for partition in again:
            self._positions[partition] = self._log.committed.get(partition, 0)
        self.arrived.set()

    def stop(self) -> None:
        self._stopped = True
        self.arrived.set()

    def done(self, ticket: Ticket) -> None:
        self._tracker.done(ticket)

    def pass_over(self, ticket: Ticket) -> None:
        self._tracker.pass_over(ticket)

    def owns(self, ticket: Ticket) -> bool:
        return self._tracker.owns(ticket)

    async def close(self, seconds: float) -> bool:
        self.stop()
        self.commit()
        self._log.leave(self)
        return True

    async def run(self) -> None:
        """Commit from time to time, until cancelled."""
        while True:
            await asyncio.sleep(self._commit_seconds)
            self.commit()

    def commit(self, partitions: Iterable[Partition] | None = None) -> None:
        """Commit what is finished."""
        offsets = self._tracker.committable(partitions)
        self._log.commit(offsets)
        self._tracker.committed(offsets)

    def revoke(self, partitions: Collection[Partition]) -> None:
        """Commit what is finished of these partitions, and let go of them."""
        self.commit(partitions)
        self.lose(partitions)

    def lose(self, partitions: Iterable[Partition]) -> None:
        """Let go without a commit: another member owns them already."""
        lost = list(partitions)
        self._tracker.forget(lost)
        for partition in lost:
            self._positions.pop(partition, None)

    def gain(self, partitions: Collection[Partition]) -> None:
        """Begin to read where the group's commit stands."""
        self._tracker.assign(partitions)
        for partition in partitions:
            self._positions[partition] = self._log.committed.get(partition, 0)
        self.arrived.set()

    def _next(self, most: int, allowed: Callable[[str], int]) -> list[Taken]:
        taken: list[Taken] = []
        left = {topic: allowed(topic) for topic in self.waiting}
        while len(taken) < most and (ready := [p for p in self._ready() if left[p[0]] > 0]):
            topic = self._turns.next({topic for topic, _ in ready}, self._weights)
            partition = next(p for p in ready if p[0] == topic)
            record = self._log.records[partition][self._positions[partition]]
            self._positions[partition] += 1
            left[topic] -= 1
            taken.append(Taken(record, self._tracker.track(partition, record.offset)))
        return taken

    def _ready(self) -> list[Partition]:
        records = self._log.records
        return [p for p, at in self._positions.items() if p[0] not in self._parked and at < len(records[p])]
