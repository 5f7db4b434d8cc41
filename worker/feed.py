"""Rows that are handed in by one thread, as the messages of a source: bounded, and none is read twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.message import Unreadable
from worker.buffer import Buffer
from worker.core.offsets import Ticket
from worker.ports import Record, Taken, any_number

# Messages ahead of the main path: enough to keep it busy while Spark prepares the next ones.
MOST_ROWS = 400
MOST_BYTES = 8 * 1024 * 1024
_TOPIC = "direct"


class Row(NamedTuple):
    """One row to ask: its id, its message, and the fingerprint of its request."""

    id: str
    message: bytes
    fingerprint: str


class Feed:
    """A source without a log: what was handed in is here once, and whatever has not ended was not asked.

    `log` names where these rows count, from `place` on. `offer` and `close_input` belong to the thread that has the
    rows, the rest to the event loop; `ended` is told there of each row that ends, and why it was refused if it was.
    """

    def __init__(self, log: str, place: int, ended: Callable[[Row, str | None], None]) -> None:
        self._buffer = Buffer(MOST_ROWS, MOST_BYTES)
        self._log = log
        self._next = place
        self._ended = ended
        self._open: dict[Ticket, Row] = {}
        self._refused: dict[int, str] = {}
        self._lock = threading.Lock()
        self._whole = False
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.finished = asyncio.Event()
        self.count = 0

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the event loop that takes."""
        self._loop = loop
        self._buffer.bind(loop)

    def offer(self, rows: Sequence[Row], seconds: float) -> bool:
        """Hand rows in; False when there was no room for them within so long, or the feed is stopped."""
        if self._buffer.room < len(rows) and not self._buffer.wait_for_room(seconds):
            return False
        with self._lock:
            if not self._closed:
                self._buffer.extend([self._taken(row) for row in rows])
            return not self._closed

    def close_input(self) -> None:
        """Say that there are no more rows; `finished` is set when all have ended."""
        self._whole = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._look_for_the_end)

    @property
    def stopped(self) -> bool:
        """Whether nothing more is given out."""
        return self._closed

    @property
    def open(self) -> list[Row]:
        """The rows without an end."""
        return list(self._open.values())

    async def take(self, most: int, allowed: Callable[[str], int] = any_number) -> list[Taken]:
        """Wait for rows and return up to `most`; nothing once stopped."""
        return await self._buffer.take(most, allowed)

    def look(self) -> None:
        """Let a taker that waits ask again for what it is allowed now."""
        self._buffer.look()

    @property
    def waiting(self) -> Collection[str]:
        """Our one topic while it has rows ready."""
        return self._buffer.waiting

    def weigh(self, weights: Mapping[str, float]) -> None:
        """All rows are of one job: nobody to share with."""

    def park(self, topics: Collection[str]) -> None:
        """Orders for topics are for those of Kafka."""

    def pass_over(self, ticket: Ticket) -> None:
        """Leave a row open: a paused run ends here, and the next one asks it."""

    def reread(self, topics: Collection[str]) -> None:
        """Nothing is read again: what was passed over stays open."""

    def stop(self) -> None:
        """Give out nothing more; what was not taken stays open."""
        with self._lock:
            self._closed = True
        self._buffer.close()
        self._buffer.wake()

    def done(self, ticket: Ticket) -> None:
        """A row has its end in the table; again is no error."""
        if (row := self._open.pop(ticket, None)) is not None:
            self.count += 1
            self._ended(row, self._refused.pop(ticket.offset, None))
            self._look_for_the_end()

    def owns(self, ticket: Ticket) -> bool:
        """Whether this row has no end yet."""
        return ticket in self._open

    async def put(self, record: Record, unreadable: Unreadable) -> bool:
        """Take in place of a dead-letter topic what cannot be read: the row's own outcome says why."""
        self._refused[record.offset] = str(unreadable.reason)
        return True

    async def close(self, seconds: float) -> bool:
        """Leave; there is nothing to commit."""
        self.stop()
        return True

    def _taken(self, row: Row) -> Taken:
        record = Record(_TOPIC, 0, self._next, row.id.encode(), row.message, log=self._log)
        ticket = Ticket((_TOPIC, 0), self._next, 0)
        self._next += 1
        self._open[ticket] = row
        return Taken(record, ticket)

    def _look_for_the_end(self) -> None:
        if self._whole and not self._open:
            self.finished.set()


def in_slices(rows: Sequence[Row], most: int = MOST_ROWS // 4) -> Iterable[Sequence[Row]]:
    """Cut rows into parts that the feed has room for at once."""
    return (rows[start : start + most] for start in range(0, len(rows), most))
