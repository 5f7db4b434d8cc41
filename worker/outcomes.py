"""What became of each row, as the table says it: whoever has answered it, this worker or another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

from schemas.statuses import Status
from worker import fleet_sql
from worker.errors import StoreUnavailableError
from worker.feed import Row

log = logging.getLogger(__name__)

# A newer request of the row has taken its place before it was asked.
SUPERSEDED = "superseded"
# Without an end: the next run asks it.
OPEN = "open"
_MOST = 500
_GATHER_SECONDS = 0.25
_RETRY_SECONDS = (0.5, 10.0)


class Outcome(NamedTuple):
    """One row's end; tokens and latency are those of its result."""

    id: str
    status: str
    reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_ms: int | None = None
    retries: int | None = None


class Outcomes:
    """Looks up rows that have ended, in batches, and puts what it finds into `found`; for one event loop."""

    def __init__(
        self,
        ask: Callable[[str, Mapping[str, Any]], Awaitable[list[tuple[Any, ...]]]],
        job: str,
        found: SimpleQueue[Outcome],
    ) -> None:
        self._ask = ask
        self._job = job
        self._found = found
        self._ended: list[Row] = []
        self._left: list[Row] = []
        self._arrived = asyncio.Event()

    def ended(self, row: Row, refused: str | None) -> None:
        """Take in a row that has ended; one that nobody could read has no row in the table."""
        if refused is not None:
            self._found.put(Outcome(row.id, Status.FAILED, refused))
            return
        self._ended.append(row)
        self._arrived.set()

    async def run(self) -> None:
        """Look up until cancelled."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._arrived.clear()
            await self.flush()

    def leave(self, rows: Sequence[Row]) -> None:
        """Take in rows that this worker leaves without an end; others may have ended them."""
        self._left += rows

    async def flush(self) -> None:
        """Look up all until now, however long the database is away."""
        for rows, otherwise in ((self._ended, SUPERSEDED), (self._left, OPEN)):
            while batch := rows[:_MOST]:
                self._tell(batch, await self._look_up(batch), otherwise)
                del rows[: len(batch)]

    def give_up(self) -> None:
        """Tell of the rest that nobody knows what became of it."""
        self._tell([*self._ended, *self._left], {}, OPEN)
        self._ended, self._left = [], []

    async def _look_up(self, batch: Sequence[Row]) -> dict[int, tuple[Any, ...]]:
        wait, longest = _RETRY_SECONDS
        keys = {"job": self._job, "id": [row.id for row in batch], "fingerprint": [row.fingerprint for row in batch]}
        while True:
            try:
                return {nth: tuple(rest) for nth, *rest in await self._ask(fleet_sql.OUTCOMES, keys)}
            except StoreUnavailableError as error:
                log.warning("outcomes.unavailable", extra={"rows": len(batch), "what": str(error)})
                await asyncio.sleep(wait)
                wait = min(wait * 2, longest)

    def _tell(self, batch: Sequence[Row], known: Mapping[int, Sequence[Any]], otherwise: str) -> None:
        for nth, row in enumerate(batch, 1):
            self._found.put(Outcome(row.id, *known[nth]) if nth in known else Outcome(row.id, otherwise))
