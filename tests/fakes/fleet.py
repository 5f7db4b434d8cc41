"""One worker without its adapters: the real main path, asker, writer and leases on fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from schemas.database import RENEW_SECONDS
from tests.fakes.dead_letters import FakeDeadLetters
from tests.fakes.endpoint import FakeEndpoint
from tests.fakes.source import FakeSource
from tests.fakes.telemetry import FakeTelemetry
from tests.fakes.virtual_time import wall
from worker.asking import Asker
from worker.claiming import Claiming
from worker.core.batch import BatchRule
from worker.core.limiter import Limiter
from worker.core.room import Bounds
from worker.drain import drain
from worker.foreman import Foreman
from worker.leases import Leases
from worker.loop import Loop
from worker.parts import Parts
from worker.ports import DeadLetters, Endpoint, Store
from worker.purses import Purses
from worker.upstreams import Upstream, Upstreams
from worker.writer import Writer


def half() -> float:
    """The jitter of tests that want none of it."""
    return 0.5


def upstream(endpoint: Endpoint, alias: str = "small", *, most: int = 32, **fields: Any) -> Upstream:
    """An endpoint that may be called `most` times at once from the start."""
    name = fields.pop("name", "vllm-a:8000")
    limiter = Limiter(most, 120.0, limit=float(most))
    return Upstream(name=name, alias=alias, model=f"{alias}-7b", endpoint=endpoint, limiter=limiter, **fields)


def upstreams(*all_: Upstream, limit: int = 32, passes_unknown: bool = False) -> Upstreams:
    """These endpoints; the first one's alias is the default."""
    return Upstreams(all_, all_[0].alias, limit, passes_unknown=passes_unknown)


class FakeWorker:
    """A worker in virtual time: `start` it, then `kill` it like a crash or `stop` it like SIGTERM."""

    def __init__(
        self,
        source: FakeSource,
        store: Store,
        endpoints: FakeEndpoint | Iterable[Upstream],
        *,
        most: int = 32,
        bounds: Bounds | None = None,
        letters: DeadLetters | None = None,
        jitter: Callable[[], float] = half,
        outage: float = 86_400.0,
        purses: Purses | None = None,
    ) -> None:
        served = [upstream(endpoints, most=most)] if isinstance(endpoints, FakeEndpoint) else list(endpoints)
        self.source = source
        self.store = store
        self.upstreams = upstreams(*served, limit=most)
        self.telemetry = FakeTelemetry()
        self.writer = Writer(store, BatchRule(), self.telemetry, jitter)
        self.leases = Leases(store, RENEW_SECONDS)
        self.claiming = Claiming(store, self.leases, jitter)
        self.letters = letters or FakeDeadLetters()
        asker = Asker(self.upstreams, self.writer, self.telemetry, wall=wall, jitter=jitter, outage=outage)
        self.asker = asker
        self.purses = asker.door.purses = purses
        self.foreman = Foreman(source, self.leases, asker, self.claiming)
        self.loop = Loop(self._parts(asker, jitter), bounds or Bounds.of(most))
        self.tasks: list[asyncio.Task[None]] = []
        self.filling: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Run the main path and its keepers."""
        steps: list[Coroutine[None, None, None]]
        steps = [self.loop.run(), self.writer.run(), self.leases.run(), self.source.run()]
        self.tasks = [asyncio.create_task(step) for step in steps]
        self.filling = [asyncio.create_task(self.purses.run())] if self.purses else []

    async def kill(self) -> None:
        """End everything in the middle of whatever it does, and clean up nothing."""
        tasks = (*self.tasks, *self.filling)
        for task in tasks:
            task.cancel()
        await asyncio.gather(self.loop._hands.cut_off(), *tasks, return_exceptions=True)

    async def stop(self, budget: float = 25.0) -> bool:
        """Drain as the composition root does; says whether nothing paid for was left behind."""
        main, writing, renewing, committing = self.tasks
        self.loop.stop()
        await asyncio.wait([main], timeout=budget / 5)
        keepers = (main, writing, renewing, *self.filling)
        for task in keepers:
            task.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        clean = await drain(self.loop, self.writer, self.leases, self.store, self.source, budget)
        if self.purses is not None:
            await self.purses.close()
        committing.cancel()
        return clean

    def broken(self) -> BaseException | None:
        """What ended the main path or one of its keepers, if anything has."""
        done = (task for task in (*self.tasks, *self.filling) if task.done() and not task.cancelled())
        return next((error for task in done if (error := task.exception())), None)

    def _parts(self, asker: Asker, jitter: Callable[[], float]) -> Parts:
        return Parts(
            source=self.source,
            claiming=self.claiming,
            foreman=self.foreman,
            dead_letters=self.letters,
            upstreams=self.upstreams,
            asker=asker,
            writer=self.writer,
            leases=self.leases,
            telemetry=self.telemetry,
            jitter=jitter,
        )
