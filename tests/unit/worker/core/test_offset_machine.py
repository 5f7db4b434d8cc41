"""The offset tracker against a naive model of sets: it never passes an unfinished offset and never falls."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from worker.core.offsets import OffsetTracker, Partition, Ticket

PARTITIONS: list[Partition] = [("t", 0), ("t", 1), ("u", 0)]
SOME = st.sets(st.sampled_from(PARTITIONS), min_size=1)


class _Naive:
    """One ownership of one partition: every offset taken in, and those finished."""

    def __init__(self, start: int) -> None:
        self.next = start
        self.start = start
        self.taken: set[int] = set()
        self.done: set[int] = set()
        self.passed: int | None = None

    def pass_over(self, offset: int) -> None:
        """Forget what comes after this one, now and from now on."""
        self.passed = offset
        self.taken = {taken for taken in self.taken if taken <= offset}

    @property
    def commit(self) -> int | None:
        """One past the longest finished prefix, or None when nothing of it is finished."""
        prefix = []
        for offset in sorted(self.taken):
            if offset not in self.done:
                break
            prefix.append(offset)
        return prefix[-1] + 1 if prefix else None


class Offsets(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.tracker = OffsetTracker()
        self.owned: dict[Partition, _Naive] = {}
        self.broker: dict[Partition, int] = {}
        self.tickets: list[tuple[Ticket, _Naive]] = []

    @rule(partitions=SOME)
    def assign(self, partitions: set[Partition]) -> None:
        self.tracker.assign(partitions)
        for partition in partitions:
            self.owned[partition] = _Naive(self.broker.get(partition, 0))

    @rule(partitions=SOME, polite=st.booleans())
    def revoke_or_lose(self, partitions: set[Partition], polite: bool) -> None:
        if polite:
            self._accept(self.tracker.committable(partitions))
        self.tracker.forget(partitions)
        for partition in partitions:
            self.owned.pop(partition, None)

    @rule(partition=st.sampled_from(PARTITIONS), gap=st.sampled_from([0, 0, 0, 1, 7]))
    def track(self, partition: Partition, gap: int) -> None:
        assert self.tracker.is_owned(partition) == (partition in self.owned)
        if partition not in self.owned:
            return
        naive = self.owned[partition]
        offset = naive.next + gap
        naive.next = offset + 1
        if naive.passed is None:
            naive.taken.add(offset)
        self.tickets.append((self.tracker.track(partition, offset, at=float(offset)), naive))

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """Any ticket there ever was: in any order, twice, or long after its partition has left and come back."""
        if not self.tickets:
            return
        ticket, naive = data.draw(st.sampled_from(self.tickets))
        assert self.tracker.owns(ticket) == (self.owned.get(ticket.partition) is naive)
        self.tracker.done(ticket)
        naive.done.add(ticket.offset)

    @rule(data=st.data())
    def pass_over(self, data: st.DataObject) -> None:
        """Any message that is not finished; what is behind one that was passed over before changes nothing."""
        if not self.tickets:
            return
        ticket, naive = data.draw(st.sampled_from(self.tickets))
        if ticket.done:
            return
        self.tracker.pass_over(ticket)
        if self.owned.get(ticket.partition) is naive and (naive.passed is None or ticket.offset < naive.passed):
            naive.pass_over(ticket.offset)

    @rule(partitions=SOME)
    def restart(self, partitions: set[Partition]) -> None:
        self._accept(self.tracker.committable(partitions))
        self.tracker.restart(partitions)
        for partition in partitions & set(self.owned):
            self.owned[partition] = _Naive(self.broker.get(partition, 0))

    @rule()
    def commit(self) -> None:
        self._accept(self.tracker.committable())

    @rule()
    def finish_all(self) -> None:
        for ticket, naive in self.tickets:
            self.tracker.done(ticket)
            naive.done.add(ticket.offset)
        for partition in PARTITIONS:
            assert self.tracker.span(partition) == 0

    @invariant()
    def is_the_finished_prefix(self) -> None:
        moved = self.tracker.committable()
        for partition, naive in self.owned.items():
            committed = self.tracker.positions[partition]
            assert moved.get(partition, committed) == (naive.commit if naive.commit is not None else committed)
        assert set(moved) <= set(self.owned)

    @invariant()
    def tells_what_is_open(self) -> None:
        assert set(self.tracker.partitions) == set(self.owned)
        heads = ((min(n.taken - n.done), n.passed) for n in self.owned.values() if n.taken - n.done)
        unfinished = [float(head) for head, passed in heads if head != passed]
        assert self.tracker.oldest == (min(unfinished) if unfinished else None)
        for partition, naive in self.owned.items():
            behind = [offset for offset in naive.taken if naive.commit is None or offset >= naive.commit]
            assert self.tracker.span(partition) == len(behind)

    def _accept(self, offsets: dict[Partition, int]) -> None:
        for partition, offset in offsets.items():
            naive = self.owned[partition]
            assert all(taken in naive.done for taken in naive.taken if taken < offset)
            assert offset >= self.broker.get(partition, 0)
            self.broker[partition] = offset
        self.tracker.committed(offsets)
        assert not set(offsets) & set(self.tracker.committable(offsets))


TestOffsets = Offsets.TestCase
TestOffsets.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
