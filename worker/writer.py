"""Answers on their way to the store: in batches, repeated until durable, never by asking the model again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from worker.core.batch import BatchRule
from worker.core.rows import AttemptRow, FinishedRow
from worker.errors import StoreRefusedError, StoreUnavailableError
from worker.ports import Store, Telemetry

log = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 10.0
_REFUSED = "the database refused this answer's content"


@dataclass(slots=True, eq=False)
class _Item:
    """What one prompt has to write, and who waits for it to be durable."""

    at: float
    attempts: tuple[AttemptRow, ...]
    row: FinishedRow | None = None
    stripped: bool = False
    settled: bool = False
    durable: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Writer:
    """Collects rows and ledger lines and writes them together; `jitter` gives numbers in [0, 1)."""

    def __init__(self, store: Store, rule: BatchRule, telemetry: Telemetry, jitter: Callable[[], float]) -> None:
        self._store = store
        self._rule = rule
        self._telemetry = telemetry
        self._jitter = jitter
        self._items: list[_Item] = []
        self._arrived = asyncio.Event()
        self._began = float("-inf")

    @property
    def held(self) -> int:
        """Items that are not durable yet and not being written."""
        return len(self._items)

    def note(self, attempt: AttemptRow) -> asyncio.Future[bool]:
        """Write a ledger line with the next batch."""
        return self._put((attempt,), None)

    def write(self, row: FinishedRow, attempt: AttemptRow | None) -> asyncio.Future[bool]:
        """Write an end with the ledger line of its last call.

        The future ends when they are durable; it is False when another owner holds the row's claim by then.
        """
        return self._put((attempt,) if attempt else (), row)

    async def run(self) -> None:
        """Write batch after batch until cancelled."""
        while True:
            await self._due()
            await self.flush()

    async def flush(self) -> None:
        """Write everything that is held now."""
        while self._items:
            batch, self._items = self._items[: self._rule.rows], self._items[self._rule.rows :]
            try:
                await self._write(batch)
            finally:
                # A stop in the middle: nobody knows whether a statement took, so what has no word is written again.
                self._items[:0] = [item for item in batch if not item.settled]

    def _put(self, attempts: tuple[AttemptRow, ...], row: FinishedRow | None) -> asyncio.Future[bool]:
        item = _Item(asyncio.get_running_loop().time(), attempts, row)
        self._items.append(item)
        self._arrived.set()
        return item.durable

    async def _due(self) -> None:
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        now = asyncio.get_running_loop().time()
        if wait := self._rule.wait(len(self._items), now - self._items[0].at, now - self._began):
            await asyncio.sleep(wait)
        self._began = asyncio.get_running_loop().time()

    async def _write(self, batch: list[_Item]) -> None:
        loop = asyncio.get_running_loop()
        tries = 0
        while True:
            started = loop.time()
            try:
                stored = await self._store.finish(*_contents(batch))
            except StoreUnavailableError as error:
                tries += 1
                await self._wait(tries, len(batch), error)
            except StoreRefusedError as error:
                return await self._divide(batch, error)
            else:
                self._telemetry.wrote(len(batch), loop.time() - started)
                return _resolve(batch, stored)

    async def _wait(self, tries: int, rows: int, error: Exception) -> None:
        wait = min(_FIRST_WAIT_SECONDS * 2.0 ** min(tries - 1, 10), _LONGEST_WAIT_SECONDS)
        log.warning("store.unavailable", extra={"rows": rows, "tries": tries, "what": str(error)})
        await asyncio.sleep(wait * (0.5 + self._jitter() / 2))

    async def _divide(self, batch: list[_Item], error: StoreRefusedError) -> None:
        """Find the row that the store refuses by halves, so that it holds back nobody else."""
        if len(batch) > 1:
            await self._write(batch[: len(batch) // 2])
            await self._write(batch[len(batch) // 2 :])
            return
        item = batch[0]
        log.error("store.refused", extra={"id": item.row.id if item.row else None, "what": str(error)})
        if item.stripped:
            item.settled = True
            raise error
        item.stripped = True
        item.row = item.row.stripped(_REFUSED) if item.row else None
        item.attempts = tuple(replace(attempt, detail=None) for attempt in item.attempts)
        await self._write([item])


def _contents(batch: Sequence[_Item]) -> tuple[list[FinishedRow], list[AttemptRow]]:
    rows = [item.row for item in batch if item.row is not None]
    return rows, [attempt for item in batch for attempt in item.attempts]


def _resolve(batch: Sequence[_Item], stored: Sequence[bool]) -> None:
    outcomes = iter(stored)
    for item in batch:
        took = next(outcomes) if item.row is not None else True
        item.settled = True
        if not item.durable.done():
            item.durable.set_result(took)
