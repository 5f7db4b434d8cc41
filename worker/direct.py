"""The composition root of direct mode: a worker for the rows of one Spark task, without Kafka and without a port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from queue import SimpleQueue

from pydantic import SecretStr

from schemas.statuses import ExitCode
from worker import bills, fleet_sql
from worker.core.orders import Orders, Word
from worker.core.outcome import Kind
from worker.engine import Engine, Surroundings
from worker.errors import StopAskedError, StoreRefusedError, StoreUnavailableError, WrongSettingsError
from worker.feed import Feed
from worker.outcomes import Outcome, Outcomes
from worker.serving import Serving
from worker.settings import WorkerSettings
from worker.silence import Silence
from worker.startup import wait_for_database
from worker.store import PostgresStore

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """Whose rows a task has; `place` is where its first row stands among all versions of the run's rows.

    A place that later attempts have further on gives each id one last version, whatever its source did in between.
    """

    job: str
    run: str
    place: int


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a task leaves rows open. `cause` tells the reason itself from the word that has come of it."""

    code: ExitCode
    text: str
    cause: bool = True


def settings_for(environ: Mapping[str, str], database: SecretStr) -> WorkerSettings:
    """Read a task's settings: the database as the driver has it, the rest from the executor's own environment."""
    own = {name: value for name, value in environ.items() if name not in ("DATABASE_URL", "DATABASE_URL_FILE")}
    return WorkerSettings({**own, "DATABASE_URL": database.get_secret_value()})


class Shift:
    """One task's worker, from its first row to its last outcome; make it inside the running event loop."""

    def __init__(self, part: Part, settings: WorkerSettings, found: SimpleQueue[Outcome]) -> None:
        name = settings.worker
        self._part = part
        self._patience = settings.fleet.direct_patience
        self._serving = Serving(settings)
        self._upstreams = self._serving.upstreams
        self._store = PostgresStore(settings.database, name, bills.of_lost(self._upstreams))
        self._outcomes = Outcomes(self._store.ask, part.job, found)
        self.feed = Feed(f"direct:{part.run}", part.place, self._outcomes.ended)
        around = Surroundings(self.feed, self.feed, self._store, self._upstreams, Silence())
        self._engine = Engine(settings, name, around)
        self._engine.obeyed = self._obeyed
        self.stop = asyncio.Event()
        self.halt: Halt | None = None

    async def run(self) -> None:
        """Work until every row has its end, or until a stop; raises what broke the worker."""
        try:
            await self._store.open()
            begun = await self._begin()
            if begun:
                await self._work()
            self.feed.stop()
            await self._tell(begun)
        finally:
            self.feed.stop()
            await self._serving.close()
            await self._store.close()

    async def _begin(self) -> bool:
        try:
            async with asyncio.timeout(self._patience):
                await wait_for_database(self._store, self.stop)
                await self._engine.prepare(self.stop)
        except TimeoutError:
            self._leave_for(self._no_database("or its tables are not there: run `headrace migrate`"))
        except WrongSettingsError as error:
            self._leave_for(Halt(ExitCode.WRONG_SETTINGS, str(error)))
        except StopAskedError:
            log.info("direct.stopped")
        else:
            return True
        return False

    async def _work(self) -> None:
        beside = (self._serving.run(lambda: None), self._outcomes.run(), self._watch(), self._until_whole())
        broken = await self._engine.run(self.stop, *beside)
        await self._engine.drain()
        if isinstance(broken, WrongSettingsError):
            self._leave_for(Halt(ExitCode.WRONG_SETTINGS, str(broken)))
            await self._tell_others()
        elif broken is not None:
            raise broken

    async def _tell(self, begun: bool) -> None:
        """Tell what became of the last rows, those that are left open too; without a database nobody knows."""
        self._outcomes.leave(self.feed.open)
        try:
            async with asyncio.timeout(self._patience if begun else 0):
                await self._outcomes.flush()
        except TimeoutError:
            self._leave_for(self._no_database("so nobody knows what became of the last rows"))
        self._outcomes.give_up()

    async def _until_whole(self) -> None:
        await self.feed.finished.wait()

    async def _watch(self) -> None:
        """Leave when no row has ended for long, and nothing could have: an executor is not to wait for a day."""
        now = asyncio.get_running_loop().time
        ended, since = self.feed.count, now()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.feed.count != ended or not self.feed.open:
                ended, since = self.feed.count, now()
            if now() - since > self._patience and (halt := await self._cause()) is not None:
                self._leave_for(halt)
                await self._tell_others()
                return

    async def _cause(self) -> Halt | None:
        if faults := self._upstreams.faults:
            ran = any(
                u.circuit.opened_for and u.circuit.opened_for.kind is Kind.RUN_FAULT for u in self._upstreams.all
            )
            told = "; ".join(f"{name}: {what}" for name, what in faults.items())
            code = ExitCode.STOPPED if ran or self._upstreams.usable else ExitCode.UNREACHABLE
            return Halt(code, f"no row had an answer for {self._patience:g} s: {told}. Mend it and run again")
        try:
            await self._store.revision()
        except StoreUnavailableError as error:
            return self._no_database(str(error))
        return None

    def _no_database(self, what: str) -> Halt:
        text = f"database: no answer for {self._patience:g} s, {what}. Check DATABASE_URL and that the server is up"
        return Halt(ExitCode.UNREACHABLE, text)

    async def _tell_others(self) -> None:
        """End the run's other tasks too; those that cannot be told come to it by themselves."""
        try:
            await self._store.ask(fleet_sql.STOP_RUN, {"job": self._part.job, "run": self._part.run})
        except (StoreUnavailableError, StoreRefusedError) as error:
            log.warning("direct.others_not_told", extra={"what": str(error)})

    def _obeyed(self, orders: Orders) -> None:
        if orders.word(self._part.job, self._part.run, None) is Word.WAIT:
            self._leave_for(Halt(ExitCode.STOPPED, "the run was paused: run again for the rest", cause=False))
            self.stop.set()

    def _leave_for(self, halt: Halt) -> None:
        self.halt = self.halt or halt
        log.warning("direct.leaving", extra={"code": int(halt.code), "what": halt.text})
