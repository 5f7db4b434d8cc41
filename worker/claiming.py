"""Claims on their way to the store and back: one statement at a time, repeated while the store is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from worker.core.claims import Claim
from worker.errors import StoreUnavailableError
from worker.leases import Leases
from worker.ports import Store, Work

log = logging.getLogger(__name__)

T = TypeVar("T")
_RETRY_SECONDS = (0.5, 10.0)


class Claiming:
    """Takes claims and gives them back, never both at once: a claim given back is not adopted on the way.

    `jitter` gives numbers in [0, 1). For one event loop.
    """

    def __init__(self, store: Store, leases: Leases, jitter: Callable[[], float]) -> None:
        self._store = store
        self._leases = leases
        self._jitter = jitter
        self._stopped = asyncio.Event()
        self._one = asyncio.Lock()

    def stop(self) -> None:
        """Wait for the store no longer."""
        self._stopped.set()

    async def claim(self, works: Sequence[Work], start: Callable[[Work, Claim], None]) -> None:
        """Claim, and start each work by its claim; nothing is claimed when the stop comes first."""
        if not works:
            return
        async with self._one:
            since = asyncio.get_running_loop().time()
            claims = await self._until_told(lambda: self._store.claim(works), "claim.unavailable", len(works))
            if claims is None:
                return
            self._leases.vouch(works, since)
            for work, claim in zip(works, claims, strict=True):
                start(work, claim)

    async def give_back(self, works: Sequence[Work]) -> None:
        """Give claims back and hold them no longer; at a stop they stay held, for whoever ends the work."""
        if not works:
            return
        async with self._one:
            told = await self._until_told(lambda: self._released(works), "release.unavailable", len(works))
            for work in works if told else ():
                self._leases.drop(work)

    async def _released(self, works: Sequence[Work]) -> bool:
        await self._store.release(works)
        return True

    async def _until_told(self, ask: Callable[[], Awaitable[T]], event: str, rows: int) -> T | None:
        """Ask until the store answers; None when the stop comes first."""
        wait, longest = _RETRY_SECONDS
        while True:
            try:
                return await ask()
            except StoreUnavailableError as error:
                log.warning(event, extra={"rows": rows, "what": str(error)})
                if await comes_within(self._stopped, wait * (0.5 + self._jitter() / 2)):
                    return None
                wait = min(wait * 2, longest)


async def comes_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, but no longer than so; says whether it has come."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
