"""Which partitions are to be held back, and which let go."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from worker.core.offsets import Partition


class Pauses:
    """What a consumer has paused; it may forget or keep a pause when a partition leaves and comes back.

    So a newly assigned partition counts as neither until it has been told again. For one thread.
    """

    def __init__(self) -> None:
        self._paused: set[Partition] = set()
        self._unsettled: set[Partition] = set()

    def __bool__(self) -> bool:
        return bool(self._paused)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Take note of partitions whose state in the client is not known."""
        self._unsettled.update(partitions)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Let partitions go that have left."""
        self._paused.difference_update(partitions)
        self._unsettled.difference_update(partitions)

    def due(self, owned: Iterable[Partition], wanted: set[Partition]) -> tuple[set[Partition], set[Partition]]:
        """Give the partitions to pause now and those to resume now, so that of the owned all `wanted` are paused."""
        ours = set(owned)
        pause = wanted - self._paused | wanted & self._unsettled
        resume = (self._paused | self._unsettled) & ours - wanted
        return pause, resume

    def did_pause(self, partitions: set[Partition]) -> None:
        """The client has paused these."""
        self._paused |= partitions
        self._unsettled -= partitions

    def did_resume(self, partitions: set[Partition]) -> None:
        """The client has resumed these."""
        self._paused -= partitions
        self._unsettled -= partitions
