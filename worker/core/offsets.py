"""Which offsets may be committed while calls finish in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

Partition = tuple[str, int]


@dataclass(slots=True, eq=False)
class Ticket:
    """One message on its way, published at Unix time `at`; `epoch` tells this ownership from an earlier one."""

    partition: Partition
    offset: int
    epoch: int
    at: float = 0.0
    done: bool = False


@dataclass(slots=True)
class _Log:
    epoch: int
    tickets: deque[Ticket] = field(default_factory=deque)
    committable: int | None = None
    committed: int | None = None
    passed: Ticket | None = None


class OffsetTracker:
    """Contiguous commits per partition, fenced by ownership epochs.

    The committable offset of a partition is one past the last of its finished prefix: it never passes an unfinished
    message and never falls. Tickets of a partition that has been forgotten change nothing any more. Not safe for
    threads: the caller holds its own lock.
    """

    def __init__(self) -> None:
        self._logs: dict[Partition, _Log] = {}
        self._epoch = 0

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Begin a new ownership of these partitions."""
        self._epoch += 1
        for partition in partitions:
            self._logs[partition] = _Log(self._epoch)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """End the ownership of these partitions; late tickets of theirs become no-ops."""
        for partition in partitions:
            self._logs.pop(partition, None)

    def restart(self, partitions: Iterable[Partition]) -> None:
        """Begin a new ownership of partitions that stay ours: all that is open of them will be taken in again."""
        self._epoch += 1
        for partition in partitions:
            if log := self._logs.get(partition):
                self._logs[partition] = _Log(self._epoch, committed=log.committed)

    def track(self, partition: Partition, offset: int, at: float = 0.0) -> Ticket:
        """Take in the next message of an owned partition."""
        log = self._logs[partition]
        ticket = Ticket(partition, offset, log.epoch, at)
        if log.passed is None:
            log.tickets.append(ticket)
        return ticket

    def pass_over(self, ticket: Ticket) -> None:
        """Leave a message to a later ownership: until `restart` nothing from it on is committed, nor remembered."""
        log = self._logs.get(ticket.partition)
        if log is None or not self.owns(ticket) or (log.passed is not None and log.passed.offset <= ticket.offset):
            return
        log.passed = ticket
        while log.tickets and log.tickets[-1].offset > ticket.offset:
            log.tickets.pop()

    def done(self, ticket: Ticket) -> None:
        """Mark a message as finished; again, or after its partition was forgotten, is no error."""
        ticket.done = True
        if not self.owns(ticket):
            return
        log = self._logs[ticket.partition]
        while log.tickets and log.tickets[0].done:
            log.committable = log.tickets.popleft().offset + 1

    def committable(self, partitions: Iterable[Partition] | None = None) -> dict[Partition, int]:
        """Offsets to commit now: of all partitions, or of these, only where they have moved."""
        chosen = self._logs if partitions is None else [p for p in partitions if p in self._logs]
        moved = {partition: self._logs[partition] for partition in chosen}
        return {
            partition: log.committable
            for partition, log in moved.items()
            if log.committable is not None and log.committable != log.committed
        }

    def committed(self, offsets: dict[Partition, int]) -> None:
        """Remember what the broker has accepted."""
        for partition, offset in offsets.items():
            if log := self._logs.get(partition):
                log.committed = offset

    def is_owned(self, partition: Partition) -> bool:
        """Whether messages of this partition are ours to take in."""
        return partition in self._logs

    def owns(self, ticket: Ticket) -> bool:
        """Whether a ticket belongs to the present ownership of its partition."""
        log = self._logs.get(ticket.partition)
        return log is not None and log.epoch == ticket.epoch

    def span(self, partition: Partition) -> int:
        """Messages held between the commit point and the last one taken in, finished ones included."""
        log = self._logs.get(partition)
        return len(log.tickets) if log else 0

    @property
    def partitions(self) -> list[Partition]:
        """The partitions owned now."""
        return list(self._logs)

    @property
    def positions(self) -> dict[Partition, int | None]:
        """The partitions owned now and what the broker has accepted for them, if anything yet."""
        return {partition: log.committed for partition, log in self._logs.items()}

    @property
    def oldest(self) -> float | None:
        """Unix time at which the oldest unfinished message was published, or None when nothing is open."""
        heads = (log.tickets[0] for log in self._logs.values() if log.tickets and log.tickets[0] is not log.passed)
        return min((ticket.at for ticket in heads), default=None)
