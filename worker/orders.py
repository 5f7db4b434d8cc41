"""Asks the database every few seconds what has been ordered for jobs; while it is away the last orders stand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from schemas.statuses import JobState
from worker import fleet_sql
from worker.claiming import comes_within
from worker.core.orders import Orders, RunState, TopicState
from worker.errors import StopAskedError, StoreRefusedError, StoreUnavailableError

log = logging.getLogger(__name__)

# An order is to hold everywhere within 5 s.
_EVERY_SECONDS = 2.0
_REMEMBERED_DAYS = 90


class OrderDesk:
    """Brings orders to `obey`; `jitter` gives numbers in [0, 1), `shared` are topics that belong to no job."""

    def __init__(
        self,
        ask: Callable[[str, Mapping[str, Any]], Awaitable[list[tuple[Any, ...]]]],
        obey: Callable[[Orders], None],
        jitter: Callable[[], float],
        shared: Collection[str],
    ) -> None:
        self._ask = ask
        self._obey = obey
        self._jitter = jitter
        self._shared = frozenset(shared)

    async def open(self, stop: asyncio.Event) -> None:
        """Wait for the first orders: without them a prompt of a paused run would be asked.

        Raises `StopAskedError` when a stop comes first.
        """
        while not await self._look():
            if await comes_within(stop, self._seconds):
                raise StopAskedError

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._seconds)
            await self._look()

    @property
    def _seconds(self) -> float:
        return _EVERY_SECONDS * (0.75 + self._jitter() / 4)

    async def _look(self) -> bool:
        try:
            runs = await self._ask(fleet_sql.ORDERED_RUNS, {"days": _REMEMBERED_DAYS})
            topics = await self._ask(fleet_sql.OPEN_TOPICS, {})
        except (StoreUnavailableError, StoreRefusedError) as error:
            log.warning("orders.unheard", extra={"what": str(error)})
            return False
        states = (RunState(job, run, JobState(state), ended_at) for job, run, state, ended_at in runs)
        self._obey(Orders(states, (TopicState(*row) for row in topics), self._shared))
        return True
