"""A worker without its source of messages: the main path, and what keeps it supplied and in touch with the fleet."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.database import RENEW_SECONDS
from worker.asking import Asker
from worker.beacon import Beacon
from worker.circuits import Circuits
from worker.claiming import Claiming
from worker.core.batch import BatchRule
from worker.core.orders import Orders
from worker.core.room import Bounds
from worker.drain import Group, drain
from worker.foreman import Foreman
from worker.leases import Leases
from worker.loop import Loop
from worker.orders import OrderDesk
from worker.parts import Parts
from worker.ports import DeadLetters, Source, Store, Telemetry
from worker.purses import Purses
from worker.quotas import Quotas
from worker.settings import WorkerSettings
from worker.traces import Spans, Traces
from worker.upstreams import Upstreams
from worker.writer import Writer

_jitter = random.SystemRandom().random


class Database(Store, Protocol):
    """A store that also runs the statements of the fleet."""

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one; raises `StoreUnavailableError` or `StoreRefusedError`."""


class Messages(Source, Group, Protocol):
    """A source that can be left."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where messages come from, where unreadable ones go, what is asked, and who is told."""

    source: Messages
    letters: DeadLetters
    store: Database
    upstreams: Upstreams
    telemetry: Telemetry
    spans: Spans | None = None


class Engine:
    """One worker's main path and keepers; make it inside the running event loop. `name` is its own in the fleet."""

    def __init__(self, settings: WorkerSettings, name: str, around: Surroundings) -> None:
        self._seconds = settings.fleet.drain_seconds
        self._around = around
        ask, upstreams = around.store.ask, around.upstreams
        self._writer = Writer(around.store, BatchRule(), around.telemetry, _jitter)
        self._leases = Leases(around.store, RENEW_SECONDS)
        self._purses = Purses(ask, name, lambda: self._beacon.alive)
        parts = self._parts(settings.fleet.outage_hours * 3600)
        self._foreman = parts.foreman
        self._loop = Loop(parts, Bounds.of(settings.fleet.max_in_flight))
        self._desk = OrderDesk(ask, self._obey, _jitter, settings.topics.of_nobody)
        self._beacon = Beacon(ask, name, lambda: (upstreams.inside, self._loop.open))
        self._circuits = Circuits(upstreams, ask, _jitter)
        self._quotas = Quotas(upstreams, ask, lambda: self._beacon.alive, _jitter)
        self.obeyed: Callable[[Orders], None] = lambda _: None

    @property
    def open(self) -> int:
        """Prompts in hand whose end is not durable yet."""
        return self._loop.open

    @property
    def alive(self) -> int:
        """Workers that live, this one among them."""
        return self._beacon.alive

    @property
    def unpaid(self) -> int:
        """Calls that wait for money."""
        return self._purses.waiting

    async def prepare(self, stop: asyncio.Event) -> None:
        """Wait for the first orders; raises `StopAskedError` when a stop comes first."""
        await self._desk.open(stop)

    async def run(self, stop: asyncio.Event, *beside: Coroutine[None, None, None]) -> BaseException | None:
        """Work until a stop is asked, or a step or one of those beside them ends; gives what broke it."""
        tasks = [asyncio.create_task(step) for step in (self._loop.run(), *self._keepers(), *beside)]
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        # The main path ends by itself, in the middle of nothing; the keepers are cut off and their work repeated.
        self._loop.stop()
        stopping.cancel()
        await asyncio.wait(tasks[:1], timeout=self._seconds / 5)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return next(
            (e for e in ends if isinstance(e, BaseException) and not isinstance(e, asyncio.CancelledError)), None
        )

    async def drain(self) -> bool:
        """End what is in hand within the budget of a stop, and leave the fleet; True when nothing was left behind."""
        around = self._around
        clean = await drain(self._loop, self._writer, self._leases, around.store, around.source, self._seconds)
        await self._purses.close()
        await self._beacon.leave()
        return clean

    def _obey(self, orders: Orders) -> None:
        self._foreman.obey(orders)
        self.obeyed(orders)

    def _keepers(self) -> list[Coroutine[None, None, None]]:
        """What goes on beside the main path."""
        fleet = (self._beacon.run(), self._circuits.run(), self._desk.run(), self._purses.run())
        return [self._writer.run(), self._leases.run(), self._quotas.run(), *fleet]

    def _parts(self, outage: float) -> Parts:
        around = self._around
        recorder = Traces(self._writer, self._leases.find, around.spans) if around.spans else self._writer
        asker = Asker(around.upstreams, recorder, around.telemetry, wall=time.time, jitter=_jitter, outage=outage)
        asker.door.purses = self._purses
        claiming = Claiming(around.store, self._leases, _jitter)
        return Parts(
            source=around.source,
            claiming=claiming,
            foreman=Foreman(around.source, self._leases, asker, claiming),
            dead_letters=around.letters,
            upstreams=around.upstreams,
            asker=asker,
            writer=recorder,
            leases=self._leases,
            telemetry=around.telemetry,
            jitter=_jitter,
        )
