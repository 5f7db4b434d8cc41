"""The composition root: the only place that makes adapters; start-up, signals and the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import time

from schemas import kafka
from schemas.statuses import ExitCode
from worker import bills
from worker.consumer import KafkaSource
from worker.dead_letters import KafkaDeadLetters
from worker.engine import Engine, Surroundings
from worker.errors import StopAskedError, StoreUnavailableError, WrongSettingsError
from worker.health import HealthServer
from worker.metrics import Metrics
from worker.runs import Runs
from worker.serving import Serving
from worker.settings import WorkerSettings
from worker.startup import wait_for_database, wait_for_kafka
from worker.store import PostgresStore
from worker.traces import exporting
from worker.vitals import Vitals
from worker.watch import KafkaWatch

log = logging.getLogger(__name__)

_VITALS_SECONDS = 1.0
_DATABASE_SECONDS = 5.0


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
        self._spans = exporting(settings.tracing, name)
        around = Surroundings(self._source, self._letters, self._store, self._upstreams, self._metrics, self._spans)
        self._engine = Engine(settings, name, around)
        self._vitals = Vitals(self._source, self._upstreams)
        self._runs = Runs(
            self._store.ask,
            lambda topic, until: self._watch.is_read(fleet.group, topic, until),
            lambda: self._engine.alive,
            random.SystemRandom().random,
        )
        self._stop = asyncio.Event()

    async def run(self) -> ExitCode:
        """Work until a signal, or until something that cannot heal; returns the exit code."""
        self._catch_signals()
        try:
            health = self._open_health()
        except WrongSettingsError:
            # Else the clients, which try to connect by now, might speak after the last line.
            await self._close()
            raise
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
            await self._close()
            health.stop()

    async def _close(self) -> None:
        self._letters.close()
        await self._serving.close()
        if self._spans:
            await asyncio.to_thread(self._spans.close)
        await self._store.close()

    async def _work(self) -> ExitCode:
        await self._engine.prepare(self._stop)
        self._source.start()
        self._watch.start(lambda: self._source.partitions, self._metrics.lag)
        self._vitals.started = True
        following = self._serving.run(lambda: self._metrics.follow(self._upstreams))
        broken = await self._engine.run(self._stop, following, self._runs.run())
        clean = await self._engine.drain()
        self._watch.stop()
        if isinstance(broken, WrongSettingsError):
            raise broken
        if broken is not None:
            log.error("worker.broken", exc_info=broken)
        return ExitCode.DONE if clean and broken is None else ExitCode.FAILED

    def _open_health(self) -> HealthServer:
        vitals = self._vitals
        host, port = self._settings.fleet.metrics_host, self._settings.fleet.metrics_port
        self._metrics.observe(
            last_poll_age=vitals.poll_age,
            oldest=vitals.oldest_age,
            held=lambda: self._engine.open,
            parked=lambda: self._source.parked,
            unpaid=lambda: self._engine.unpaid,
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
