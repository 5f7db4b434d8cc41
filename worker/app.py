"""The composition root: the only place that makes adapters; start-up, signals and the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import time
from collections.abc import Coroutine

from schemas import kafka
from schemas.database import RENEW_SECONDS
from schemas.statuses import ExitCode
from worker import bills
from worker.asking import Asker
from worker.beacon import Beacon
from worker.circuits import Circuits
from worker.claiming import Claiming
from worker.consumer import KafkaSource
from worker.core.batch import BatchRule
from worker.core.room import Bounds
from worker.dead_letters import KafkaDeadLetters
from worker.drain import drain
from worker.errors import StopAskedError, StoreUnavailableError, WrongSettingsError
from worker.foreman import Foreman
from worker.health import HealthServer
from worker.leases import Leases
from worker.loop import Loop
from worker.metrics import Metrics
from worker.orders import OrderDesk
from worker.parts import Parts
from worker.purses import Purses
from worker.quotas import Quotas
from worker.serving import Serving
from worker.settings import WorkerSettings
from worker.startup import wait_for_database, wait_for_kafka
from worker.store import PostgresStore
from worker.vitals import Vitals
from worker.watch import KafkaWatch
from worker.writer import Writer

log = logging.getLogger(__name__)

_VITALS_SECONDS = 1.0
_DATABASE_SECONDS = 5.0
_jitter = random.SystemRandom().random


class App:
    """One worker process; make it inside the running event loop."""

    def __init__(self, settings: WorkerSettings) -> None:
        fleet, name = settings.fleet, settings.worker
        self._settings = settings
        self._serving = Serving(settings)
        self._upstreams = self._serving.upstreams
        self._metrics = Metrics(self._upstreams, max(model.timeouts.read for model in settings.models.values()))
        self._store = PostgresStore(settings.database, name, bills.of_lost(self._upstreams))
        self._watch = KafkaWatch(kafka.common(settings.kafka))
        self._source = KafkaSource(
            kafka.consumer(settings.kafka, fleet.group), settings.topics.prompts, self._metrics, self._watch
        )
        self._letters = KafkaDeadLetters(
            kafka.producer(settings.kafka), settings.topics.dead_letters, fleet.group, name
        )
        self._writer = Writer(self._store, BatchRule(), self._metrics, _jitter)
        self._leases = Leases(self._store, RENEW_SECONDS)
        self._purses = Purses(self._store.ask, name, lambda: self._beacon.alive)
        parts = self._parts()
        self._loop = Loop(parts, Bounds.of(fleet.max_in_flight))
        self._desk = OrderDesk(self._store.ask, parts.foreman.obey, _jitter, settings.topics.of_nobody)
        self._beacon = Beacon(self._store.ask, name, lambda: (self._upstreams.inside, self._loop.open))
        self._circuits = Circuits(self._upstreams, self._store.ask, _jitter)
        self._quotas = Quotas(self._upstreams, self._store.ask, lambda: self._beacon.alive, _jitter)
        self._vitals = Vitals(self._source, self._upstreams)
        self._stop = asyncio.Event()

    async def run(self) -> ExitCode:
        """Work until a signal, or until something that cannot heal; returns the exit code."""
        self._catch_signals()
        health = self._open_health()
        watching = asyncio.create_task(self._keep_vitals())
        try:
            await self._store.open()
            await wait_for_database(self._store, self._stop)
            await wait_for_kafka(self._watch, self._settings.kafka.bootstrap_servers, self._stop)
            return await self._work()
        except StopAskedError:
            return ExitCode.DONE
        except WrongSettingsError as error:
            log.error("settings.wrong", extra={"what": str(error)})
            return ExitCode.WRONG_SETTINGS
        finally:
            watching.cancel()
            self._letters.close()
            await self._serving.close()
            await self._store.close()
            health.stop()

    async def _work(self) -> ExitCode:
        await self._desk.open(self._stop)
        self._source.start()
        self._watch.start(lambda: self._source.partitions, self._metrics.lag)
        self._vitals.started = True
        broken = await self._until_stopped(self._loop.run(), *self._keepers())
        seconds = self._settings.fleet.drain_seconds
        clean = await drain(self._loop, self._writer, self._leases, self._store, self._source, seconds)
        self._watch.stop()
        await self._purses.close()
        await self._beacon.leave()
        if isinstance(broken, WrongSettingsError):
            raise broken
        if broken is not None:
            log.error("worker.broken", exc_info=broken)
        return ExitCode.DONE if clean and broken is None else ExitCode.FAILED

    async def _until_stopped(self, *steps: Coroutine[None, None, None]) -> BaseException | None:
        """Run the steps until a stop is asked or one of them ends; gives what broke it."""
        tasks = [asyncio.create_task(step) for step in steps]
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        # The main path ends by itself, in the middle of nothing; the keepers are cut off and their work repeated.
        self._loop.stop()
        stopping.cancel()
        await asyncio.wait(tasks[:1], timeout=self._settings.fleet.drain_seconds / 5)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return next(
            (e for e in ends if isinstance(e, BaseException) and not isinstance(e, asyncio.CancelledError)), None
        )

    def _keepers(self) -> list[Coroutine[None, None, None]]:
        """What goes on beside the main path."""
        following = self._serving.run(lambda: self._metrics.follow(self._upstreams))
        fleet = (self._beacon.run(), self._circuits.run(), self._desk.run(), self._purses.run())
        return [self._writer.run(), self._leases.run(), self._quotas.run(), *fleet, following]

    def _parts(self) -> Parts:
        outage = self._settings.fleet.outage_hours * 3600
        asker = Asker(self._upstreams, self._writer, self._metrics, wall=time.time, jitter=_jitter, outage=outage)
        asker.door.purses = self._purses
        claiming = Claiming(self._store, self._leases, _jitter)
        return Parts(
            source=self._source,
            claiming=claiming,
            foreman=Foreman(self._source, self._leases, asker, claiming),
            dead_letters=self._letters,
            upstreams=self._upstreams,
            asker=asker,
            writer=self._writer,
            leases=self._leases,
            telemetry=self._metrics,
            jitter=_jitter,
        )

    def _open_health(self) -> HealthServer:
        vitals = self._vitals
        host, port = self._settings.fleet.metrics_host, self._settings.fleet.metrics_port
        self._metrics.observe(
            last_poll_age=vitals.poll_age,
            oldest=vitals.oldest_age,
            held=lambda: self._loop.open,
            parked=lambda: self._source.parked,
            unpaid=lambda: self._purses.waiting,
        )
        try:
            health = HealthServer(host, port, self._metrics.registry, alive=vitals.dead, ready=vitals.unready)
        except OSError as error:
            raise WrongSettingsError(f"METRICS_PORT {port}: {error.strerror}: name a free port, or 0") from None
        health.start()
        log.info("worker.starting", extra={"metrics_port": health.port, "group": self._settings.fleet.group})
        return health

    async def _keep_vitals(self) -> None:
        asked = 0.0
        while True:
            self._vitals.beat()
            if time.monotonic() - asked >= _DATABASE_SECONDS:
                asked = time.monotonic()
                self._vitals.database = await self._database_problem()
            await asyncio.sleep(_VITALS_SECONDS)

    async def _database_problem(self) -> str | None:
        try:
            return None if await self._store.revision() else "has no tables: run `headrace migrate`"
        except StoreUnavailableError as error:
            return str(error)

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        if self._stop.is_set():
            # Asked twice: leave at once, as a crash would; the claims' leases run out by themselves.
            os._exit(ExitCode.FAILED)
        self._stop.set()
