"""The circuits of the whole fleet: faults counted together, one probe at a time, one word on open or closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import groupby
from typing import Any

from worker import fleet_sql
from worker.core.circuit import (
    FIRST_PROBE_SECONDS,
    RUN_FAULT_WINDOW_SECONDS,
    RUN_FAULTS,
    SLOWEST_PROBE_SECONDS,
    News,
)
from worker.core.outcome import Kind, Outcome
from worker.errors import StoreRefusedError, StoreUnavailableError
from worker.upstreams import Upstream, Upstreams

log = logging.getLogger(__name__)

Ask = Callable[[str, Mapping[str, Any]], Awaitable[list[tuple[Any, ...]]]]

LOOK_SECONDS = 2.0


class Circuits:
    """Keeps this worker's circuits and the fleet's word on them together; `jitter` gives numbers in [0, 1)."""

    def __init__(self, upstreams: Upstreams, ask: Ask, jitter: Callable[[], float]) -> None:
        self._upstreams = upstreams
        self._ask = ask
        self._jitter = jitter

    async def run(self) -> None:
        """Tell the fleet at once what it has to hear, and look at its word every few seconds, until cancelled."""
        while True:
            try:
                await self._turn()
            except (StoreUnavailableError, StoreRefusedError) as error:
                log.warning("circuits.alone", extra={"what": str(error)})
                self._share(shared=False)
                # What is still to be told waits for the next look: a database that refuses at once is not pressed.
                for upstream in self._upstreams.all:
                    upstream.news.clear()
            await self._news_or(LOOK_SECONDS * (0.75 + self._jitter() / 2))

    async def _turn(self) -> None:
        for upstream in self._upstreams.all:
            await self._tell(upstream)
        said = {
            endpoint: _outcome(reason, detail) for endpoint, reason, detail in await self._ask(fleet_sql.CIRCUITS, {})
        }
        self._share(shared=True)
        for upstream in self._upstreams.all:
            await self._follow(upstream, said.get(upstream.account))

    async def _tell(self, upstream: Upstream) -> None:
        """Report what has happened since the last time, in its order; what could not be told stays to be told."""
        upstream.news.clear()
        circuit = upstream.circuit
        while circuit.news:
            news, group = next(groupby(circuit.news))
            same = len(list(group))
            await self._report(upstream, news, same)
            # More may have come meanwhile, and the oldest may have been let go.
            while same and circuit.news and circuit.news[0] is news:
                circuit.news.popleft()
                same -= 1

    async def _report(self, upstream: Upstream, news: News, count: int) -> None:
        key, circuit = {"endpoint": upstream.account}, upstream.circuit
        if news is News.OPENED:
            what = circuit.opened_for.message if circuit.opened_for else ""
            log.warning("circuit.opened", extra={"endpoint": upstream.name, "what": what})
        elif news is News.CLOSED:
            log.info("circuit.closed", extra={"endpoint": upstream.name})
            await self._ask(fleet_sql.CLOSE, key)
        elif not await self._count(key, circuit.last_fault, count):
            circuit.trust()
            self._upstreams.look(upstream.alias)

    async def _count(self, key: Mapping[str, str], fault: Outcome | None, count: int) -> bool:
        """Count faults for the fleet; says whether they open the circuit."""
        limits = {"most": RUN_FAULTS, "window": RUN_FAULT_WINDOW_SECONDS, "first_probe": FIRST_PROBE_SECONDS}
        ((opened,),) = await self._ask(fleet_sql.FAULTS, {**key, **_words(fault), **limits, "faults": count})
        return bool(opened)

    async def _follow(self, upstream: Upstream, said: Outcome | None) -> None:
        circuit = upstream.circuit
        if circuit.news:
            # Something has happened since the look: it is told first.
            return
        if circuit.follow(said, _now()):
            upstream.limiter.restart()
        if said is not None and self._upstreams.waiting(upstream):
            wanted = {"endpoint": upstream.account, "slowest": SLOWEST_PROBE_SECONDS}
            if await self._ask(fleet_sql.PROBE, wanted):
                circuit.may_probe(_now())
        self._upstreams.look(upstream.alias)

    def _share(self, *, shared: bool) -> None:
        for upstream in self._upstreams.all:
            upstream.circuit.share(shared, _now())

    async def _news_or(self, seconds: float) -> None:
        """Sleep, but no longer than until there is news."""
        waits = [asyncio.create_task(upstream.news.wait()) for upstream in self._upstreams.all]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _words(outcome: Outcome | None) -> dict[str, str | None]:
    """An outcome in our own words: its kind, and the rest of its message."""
    if outcome is None:
        return {"reason": str(Kind.RUN_FAULT), "detail": None}
    return {"reason": str(outcome.kind), "detail": outcome.message.partition(", ")[2] or None}


def _outcome(reason: str, detail: str | None) -> Outcome:
    return Outcome(Kind(reason), code=detail or "")


def _now() -> float:
    return asyncio.get_running_loop().time()
