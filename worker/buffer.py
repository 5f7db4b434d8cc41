"""Messages on their way from the consumer's thread to the event loop, bounded in number and bytes."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable

from worker.core.offsets import Partition
from worker.ports import Taken

# Enough to hide a fetch, small enough for the memory.
MOST_MESSAGES = 1000
MOST_BYTES = 32 * 1024 * 1024


class Buffer:
    """A queue with one thread putting in and one event loop taking out."""

    def __init__(self) -> None:
        self._items: deque[Taken] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._arrived = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._failure: Exception | None = None

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the event loop that takes."""
        self._loop = loop

    @property
    def room(self) -> int:
        """How many more messages may come; a filled-up number of bytes leaves none."""
        if self._bytes >= MOST_BYTES or self._closed:
            return 0
        return MOST_MESSAGES - len(self._items)

    def wait_for_room(self, seconds: float) -> bool:
        """Wait, on the thread, until half the buffer is free."""
        with self._changed:
            return self._changed.wait_for(lambda: self.room > MOST_MESSAGES // 2, timeout=seconds)

    def extend(self, items: Iterable[Taken]) -> None:
        """Put messages in, from the thread."""
        with self._changed:
            if self._closed:
                return
            for item in items:
                self._items.append(item)
                self._bytes += _size(item)
        self.wake()

    def purge(self, partitions: set[Partition]) -> None:
        """Throw away the messages of partitions that are no longer ours."""
        with self._changed:
            self._items = deque(item for item in self._items if item.ticket.partition not in partitions)
            self._bytes = sum(map(_size, self._items))

    async def take(self, most: int) -> list[Taken]:
        """Wait for at least one message and return up to `most`; nothing once closed."""
        while True:
            if items := self._pop(most):
                return items
            if self._failure is not None:
                raise self._failure
            if self._closed:
                return []
            self._arrived.clear()
            await self._arrived.wait()

    def close(self) -> None:
        """Give out nothing more; what is inside is dropped, since its offsets are not committed."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._bytes = 0
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

    def _pop(self, most: int) -> list[Taken]:
        with self._changed:
            items = [self._items.popleft() for _ in range(min(most, len(self._items)))]
            self._bytes -= sum(map(_size, items))
            if items:
                self._changed.notify_all()
            return items


def _size(item: Taken) -> int:
    return len(item.record.value or b"") + len(item.record.key or b"")
