"""Keeps an endpoint's meter supplied with units of the fleet's limits, leased from the database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from schemas.statuses import Unit
from worker import fleet_sql
from worker.core.quota import AHEAD_SECONDS, Lease, Share
from worker.errors import StoreRefusedError, StoreUnavailableError
from worker.upstreams import Upstream, Upstreams

log = logging.getLogger(__name__)

Ask = Callable[[str, Mapping[str, Any]], Awaitable[list[tuple[Any, ...]]]]

# Nobody asks more often than this, however hungry: a lease is worth half a second of the whole fleet.
_BREATH_SECONDS = 0.02
_LOOK_SECONDS = 1.0
_LINE_EVERY_SECONDS = 60.0


class Quotas:
    """Leases for every limit of every endpoint of one worker.

    `alive` tells how many workers the fleet has: while the database is away each goes on with its fair share.
    """

    def __init__(self, upstreams: Upstreams, ask: Ask, alive: Callable[[], int], jitter: Callable[[], float]) -> None:
        self._upstreams = upstreams
        self._ask = ask
        self._alive = alive
        self._jitter = jitter
        self._own_next: dict[tuple[str, Unit], float] = {}
        self._told = float("-inf")

    async def run(self) -> None:
        """Lease for every endpoint, those that come later too, until cancelled."""
        async with asyncio.TaskGroup() as group:
            keepers: dict[Upstream, asyncio.Task[None]] = {}
            while True:
                served = self._upstreams.all
                for upstream in keepers.keys() - served:
                    keepers.pop(upstream).cancel()
                keepers |= {new: group.create_task(self._keep(new)) for new in served if new not in keepers}
                await asyncio.sleep(_LOOK_SECONDS)

    async def _keep(self, upstream: Upstream) -> None:
        """Lease for one endpoint, whenever calls wait there."""
        while True:
            await upstream.meter.hungry.wait()
            upstream.meter.hungry.clear()
            waits = [await self._feed(upstream, unit, share) for unit, share in [*upstream.meter.shares.items()]]
            await asyncio.sleep(max(_BREATH_SECONDS, max(waits, default=0.0)))

    async def _feed(self, upstream: Upstream, unit: Unit, share: Share) -> float:
        """Lease what waiting calls want; gives the seconds after which more can be had."""
        if upstream.meter.shares.get(unit) is not share:
            # The limit has gone from the models file while another one was leased for.
            return 0.0
        sizes = self._upstreams.waiting(upstream)
        wanted = _wanted(upstream, unit, share, [upstream.meter.units(_now(), size)[unit] for size in sizes])
        if not wanted:
            return 0.0
        lease, wait = await self._lease(upstream, unit, wanted, share.rate)
        if lease is not None:
            share.add(lease)
            self._upstreams.look(upstream.alias)
        else:
            upstream.meter.hungry.set()
        return wait

    async def _lease(self, upstream: Upstream, unit: Unit, units: float, rate: float) -> tuple[Lease | None, float]:
        key = {"endpoint": upstream.account, "unit": str(unit)}
        try:
            rows = await self._ask(fleet_sql.LEASE, {**key, "seconds": units / rate, "ahead": AHEAD_SECONDS})
            if rows:
                return Lease(_now() + max(0.0, rows[0][0]), 1.0 / rate, units), 0.0
            until = await self._ask(fleet_sql.LEASED_UNTIL, key)
        except (StoreUnavailableError, StoreRefusedError) as error:
            self._tell(error)
            return self._own(upstream.account, unit, units, rate), 0.0
        ahead = until[0][0] if until else 0.0
        # Those who were refused at the same instant come back one after another.
        return None, max(0.0, ahead - AHEAD_SECONDS) + 0.1 * self._jitter()

    def _own(self, account: str, unit: Unit, units: float, rate: float) -> Lease:
        """A lease that needs no database: of this worker's fair share, as large as the fleet was last known to be."""
        start = max(_now(), self._own_next.get((account, unit), 0.0))
        every = max(1, self._alive()) / rate
        self._own_next[account, unit] = start + units * every
        return Lease(start, every, units)

    def _tell(self, error: Exception) -> None:
        if _now() - self._told >= _LINE_EVERY_SECONDS:
            self._told = _now()
            log.warning("quotas.own_share", extra={"workers": self._alive(), "what": str(error)})


def _wanted(upstream: Upstream, unit: Unit, share: Share, units: Sequence[float]) -> float:
    return share.wanted(sum(units), units[0]) if units else 0.0


def _now() -> float:
    return asyncio.get_running_loop().time()
