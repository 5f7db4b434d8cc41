"""Tells the fleet that this worker lives, and learns how many others do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from worker import fleet_sql
from worker.errors import StoreRefusedError, StoreUnavailableError

log = logging.getLogger(__name__)

BEAT_SECONDS = 2.0
# A worker that has said nothing for so long is counted no more.
GONE_AFTER_SECONDS = 15.0
_GOODBYE_SECONDS = 1.0


class Beacon:
    """One row in `headrace.workers`; `state` gives calls in flight and prompts in hand."""

    def __init__(
        self,
        ask: Callable[[str, Mapping[str, Any]], Awaitable[list[tuple[Any, ...]]]],
        worker: str,
        state: Callable[[], tuple[int, int]],
    ) -> None:
        self._ask = ask
        self._worker = worker
        self._state = state
        # At least this one; the last word of the database stands while it is away.
        self.alive = 1

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self._beat()
            await asyncio.sleep(BEAT_SECONDS)

    async def leave(self) -> None:
        """Say goodbye; a database that is away is not waited for."""
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._ask(fleet_sql.GONE, {"worker": self._worker})
        except (StoreUnavailableError, StoreRefusedError, TimeoutError):
            return

    async def _beat(self) -> None:
        in_flight, open_ = self._state()
        values = {"worker": self._worker, "in_flight": in_flight, "open": open_, "gone_after": GONE_AFTER_SECONDS}
        try:
            self.alive = int((await self._ask(fleet_sql.BEAT, values))[0][0])
        except (StoreUnavailableError, StoreRefusedError) as error:
            log.debug("beacon.unheard", extra={"what": str(error)})
