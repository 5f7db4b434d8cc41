"""Which partitions are to be put by, and which taken up again, so that whole topics wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from worker.core.offsets import Partition


class Parking:
    """What a consumer has put by. For one thread, save `ask` and `ask_again`, which take effect at the next `due`."""

    def __init__(self) -> None:
        self._topics: frozenset[str] = frozenset()
        self._again: set[str] = set()
        self._parked: set[Partition] = set()

    def __len__(self) -> int:
        return len(self._parked)

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._parked

    def ask(self, topics: Collection[str]) -> None:
        """Say which topics are to wait from now on."""
        self._topics = frozenset(topics)

    def ask_again(self, topics: Collection[str]) -> None:
        """Say that these topics are to be read again from their commits."""
        # In one step, as below: a name that comes while the other thread takes what is there must not be lost.
        self._again.update(frozenset(topics))

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Park at once what arrives of a topic that waits, before any of its messages is looked at."""
        self._parked.update(p for p in partitions if p[0] in self._topics)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Let partitions go that have left."""
        self._parked.difference_update(partitions)

    def park(self, owned: Iterable[Partition]) -> set[Partition]:
        """Give those of the owned partitions that are to be put by now; from here on they count as parked."""
        again = {self._again.pop() for _ in range(len(self._again))}
        new = {p for p in owned if p not in self._parked and (p[0] in self._topics or p[0] in again)}
        self._parked |= new
        return new

    def due(self) -> set[Partition]:
        """Give the parked partitions that are to be taken up again; `forget` those for which that was done."""
        return {p for p in self._parked if p[0] not in self._topics}

    @property
    def all(self) -> frozenset[Partition]:
        """What is parked."""
        return frozenset(self._parked)
