"""Finds out which runs are done: those whose messages the group has all committed, by the brokers' word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from worker import fleet_sql
from worker.errors import StoreRefusedError, StoreUnavailableError

log = logging.getLogger(__name__)

_EVERY_SECONDS = 30.0
# So far apart may the clocks be of who publishes and of the database.
_CLOCKS_SECONDS = 60.0
_MOST_RUNS = 20


class Runs:
    """Records runs as done. For one event loop.

    `is_read` tells, and may block, whether all that a topic had at an instant is committed; `alive` how many workers
    there are: together they look about every 30 s, so that a large fleet asks no more than one worker does. `jitter`
    gives numbers in [0, 1).
    """

    def __init__(
        self,
        ask: Callable[[str, Mapping[str, Any]], Awaitable[list[tuple[Any, ...]]]],
        is_read: Callable[[str, datetime], bool],
        alive: Callable[[], int],
        jitter: Callable[[], float],
    ) -> None:
        self._ask = ask
        self._is_read = is_read
        self._alive = alive
        self._jitter = jitter

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            if self._jitter() * self._alive() < 1:
                await self._look()

    async def _look(self) -> None:
        try:
            settled = {"settled": _CLOCKS_SECONDS, "most": _MOST_RUNS}
            for job, run, topic, until in await self._ask(fleet_sql.UNENDED_RUNS, settled):
                if await asyncio.to_thread(self._is_read, topic, until + timedelta(seconds=_CLOCKS_SECONDS)):
                    await self._end(job, run, until)
        except (StoreUnavailableError, StoreRefusedError) as error:
            log.debug("runs.unheard", extra={"what": str(error)})

    async def _end(self, job: str, run: str, until: datetime) -> None:
        found = await self._ask(fleet_sql.END_RUN, {"job": job, "run": run, "until": until})
        if found and found[0][0]:
            log.info("run.done", extra={"job": job, "run": run})
