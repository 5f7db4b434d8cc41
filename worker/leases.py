"""Claims held by this worker, kept alive while their owner lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from schemas.database import LEASE_SECONDS, RENEW_SECONDS
from worker.errors import StoreRefusedError, StoreUnavailableError
from worker.ports import Store, Work

log = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0
# Counted from before the statement was sent. Less than the lease, for a claim that is adopted late.
_SURE_SECONDS = LEASE_SECONDS - RENEW_SECONDS


class Leases:
    """The claims this worker holds; renewed together every `every` seconds."""

    def __init__(self, store: Store, every: float) -> None:
        self._store = store
        self._every = every
        self._held: dict[tuple[str, str], Work] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, work: Work) -> None:
        """Begin to renew a claim; a newer claim of the same key takes its place."""
        if (older := self._held.get(work.key)) is not None:
            older.fenced = True
        work.fenced = False
        self._held[work.key] = work

    def vouch(self, works: Iterable[Work], since: float) -> None:
        """Say that these claims held at an instant of the event loop's clock.

        A process that was frozen wakes up with claims that others have taken over meanwhile: its clock tells it
        before the store does.
        """
        for work in works:
            work.sure_until = since + _SURE_SECONDS

    def drop(self, work: Work) -> None:
        """Stop renewing a claim."""
        if self._held.get(work.key) is work:
            del self._held[work.key]

    def find(self, key: tuple[str, str]) -> Work | None:
        """The work in hand for a key."""
        return self._held.get(key)

    def holds(self, key: tuple[str, str], fence: int) -> bool:
        """Whether this claim of a key, or a newer one, is in hand."""
        held = self._held.get(key)
        return held is not None and held.claim is not None and held.claim.fence >= fence

    @property
    def held(self) -> list[Work]:
        """All works whose claim is held."""
        return list(self._held.values())

    async def run(self) -> None:
        """Renew until cancelled; a store that is away is tried again before the lease is over."""
        wait = self._every
        while True:
            await asyncio.sleep(wait)
            wait = self._every if await self._renew() else _RETRY_SECONDS

    async def _renew(self) -> bool:
        since = asyncio.get_running_loop().time()
        try:
            if works := self.held:
                self._fence(works, await self._store.renew(works))
                self.vouch((work for work in works if not work.fenced), since)
        except (StoreUnavailableError, StoreRefusedError) as error:
            log.warning("leases.not_renewed", extra={"held": len(self._held), "what": str(error)})
            return False
        return True

    def _fence(self, works: list[Work], still_ours: list[bool]) -> None:
        for work, ours in zip(works, still_ours, strict=True):
            if not ours:
                work.fenced = True
                self.drop(work)
