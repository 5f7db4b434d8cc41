"""Messages on their way from the consumer's thread to the event loop, bounded in number and bytes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from worker.core.offsets import Partition
from worker.lanes import Lanes
from worker.ports import Taken, any_number

# Enough to hide a fetch, and for several topics to come by turns; small enough for the memory.
MOST_MESSAGES = 2000
MOST_BYTES = 32 * 1024 * 1024


class Buffer:
    """A queue a topic, with one thread putting in and one event loop taking out."""

    def __init__(self, messages: int = MOST_MESSAGES, nbytes: int = MOST_BYTES) -> None:
        self._most = messages, nbytes
        self._lanes = Lanes(*self._most)
        self._changed = threading.Condition()
        self._arrived = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again = False
        self._closed = False
        self._failure: Exception | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the event loop that takes."""
        self._loop = loop

    @property
    def room(self) -> int:
        """How many more messages may come."""
        return 0 if self._closed else self._lanes.room

    @property
    def step(self) -> int:
        """How many messages may come at once so that no topic fills more than its part of the room."""
        with self._changed:
            return self._lanes.step

    @property
    def full(self) -> frozenset[str]:
        """The topics that have filled their part of the room."""
        with self._changed:
            return self._lanes.full

    @property
    def waiting(self) -> list[str]:
        """The topics that have messages here."""
        with self._changed:
            return list(self._lanes.topics)

    def wait_for_room(self, seconds: float) -> bool:
        """Wait, on the thread, until half the buffer is free and no topic is full."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.room > self._most[0] // 2 and not self._lanes.full, timeout=seconds
            )

    def extend(self, items: Iterable[Taken]) -> None:
        """Put messages in, from the thread."""
        with self._changed:
            if self._closed:
                return
            for item in items:
                self._lanes.put(item)
        self.wake()

    def purge(self, partitions: Collection[Partition]) -> None:
        """Throw away the messages of partitions that are no longer ours, or not now."""
        with self._changed:
            self._lanes.drop(partitions)

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Let topics be taken from by these weights."""
        with self._changed:
            self._lanes.weights = weights

    async def take(self, most: int, allowed: Callable[[str], int] = any_number) -> list[Taken]:
        """Wait for at least one message and return up to `most`, of each topic as many as are allowed.

        Returns nothing once closed, or as soon as `look` is called.
        """
        while True:
            self._arrived.clear()
            if items := self._pop(most, allowed):
                return items
            if self._failure is not None:
                raise self._failure
            if self._closed or await self._looked():
                return []

    def look(self) -> None:
        """Let the taker, should it wait, go and ask again for what it is allowed now."""
        self._again = True
        self._arrived.set()

    def close(self) -> None:
        """Give out nothing more; what is inside is dropped, since its offsets are not committed."""
        with self._changed:
            self._closed = True
            self._lanes = Lanes(*self._most)
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        """Let the taker know that nothing will come any more."""
        self._failure = error
        self.wake()

    def wake(self) -> None:
        """Make both sides look again, from the thread."""
        with self._changed:
            self._changed.notify_all()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def _looked(self) -> bool:
        self._again = False
        await self._arrived.wait()
        return self._again

    def _pop(self, most: int, allowed: Callable[[str], int]) -> list[Taken]:
        with self._changed:
            items = self._lanes.take(most, allowed)
            if items:
                self._changed.notify_all()
            return items
