"""Several workers, one word on an endpoint: counted together, probed by one, open or closed for all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from schemas.statuses import Reason
from tests.fakes.endpoint import FakeEndpoint, answer
from tests.fakes.fleet import half, upstream, upstreams
from tests.fakes.virtual_time import now, virtual
from worker import fleet_sql
from worker.circuits import LOOK_SECONDS, Circuits
from worker.core.circuit import RUN_FAULTS
from worker.core.outcome import Kind, Outcome
from worker.errors import StoreUnavailableError

SERVED = FakeEndpoint(lambda _request: answer())
FAULT = Outcome(Kind.RUN_FAULT, Reason.AUTH, status=401, code="invalid_api_key")


class Database:
    """The row of one endpoint, as the statements change it."""

    def __init__(self) -> None:
        self.faults = 0
        self.open = False
        self.probe_at = 0.0
        self.wait = 15.0
        self.away = False

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        await asyncio.sleep(0.002)
        if self.away:
            raise StoreUnavailableError("OperationalError")
        if statement == fleet_sql.FAULTS:
            self.faults += values["faults"]
            if not self.open and self.faults >= values["most"]:
                self.open, self.wait, self.probe_at = True, 15.0, now() + 15.0
            return [(self.open,)]
        if statement == fleet_sql.CLOSE:
            self.open, self.faults = False, 0
        elif statement == fleet_sql.PROBE and self.open and now() >= self.probe_at:
            self.probe_at, self.wait = now() + self.wait, min(2 * self.wait, 60.0)
            return [(True,)]
        elif statement == fleet_sql.CIRCUITS and self.open:
            return [("a", "run_fault", "status 401, invalid_api_key")]
        return []


class Server:
    """Answers until the key is revoked, then nothing but faults."""

    def __init__(self) -> None:
        self.revoked = False
        self.faults: list[float] = []

    def outcome(self) -> Outcome:
        if not self.revoked:
            return Outcome(Kind.ANSWERED)
        self.faults.append(now())
        return FAULT


class Crowd:
    """One worker with calls that take a tenth of a second and never lack work."""

    def __init__(self, database: Database, server: Server, calls: int = 4) -> None:
        self.upstream = upstream(SERVED, most=64, account="a")
        self.upstreams = upstreams(self.upstream, limit=64)
        self.server = server
        self.answers: list[float] = []
        circuits = Circuits(self.upstreams, database.ask, half)
        self.tasks = [asyncio.create_task(circuits.run())]
        self.tasks += [asyncio.create_task(self._call()) for _ in range(calls)]

    async def _call(self) -> None:
        while True:
            admission = await self.upstreams.admit("small")
            outcome = self.server.outcome()
            await asyncio.sleep(0.1)
            admission.saw(outcome)
            self.upstreams.leave(admission)
            if outcome.kind is Kind.ANSWERED:
                self.answers.append(now())
            else:
                await asyncio.sleep(1.0)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@virtual
async def test_a_revoked_key_costs_the_calls_under_way_and_few_more_in_the_whole_fleet() -> None:
    database, server = Database(), Server()
    crowds = [Crowd(database, server) for _ in range(8)]
    await asyncio.sleep(5)
    server.revoked = True
    revoked_at = now()
    await asyncio.sleep(0.15)
    # Each of the 32 callers had one call under way or began one before any fault came back.
    under_way = len(server.faults)
    await asyncio.sleep(14)
    assert under_way <= 32
    assert len(server.faults) - under_way <= RUN_FAULTS
    assert database.open
    assert all(not crowd.upstreams.usable for crowd in crowds)
    await asyncio.sleep(120)
    probes = [at for at in server.faults if at > revoked_at + 14]
    assert 3 <= len(probes) <= 5, "the fleet probes as one worker does"
    server.revoked = False
    await asyncio.sleep(60 + 2 * LOOK_SECONDS)
    back = now()
    await asyncio.sleep(5)
    assert all(sum(1 for at in crowd.answers if at >= back) > 100 for crowd in crowds)
    for crowd in crowds:
        await crowd.end()


@virtual
async def test_one_call_after_another_is_tried_until_the_fleet_has_seen_five_faults() -> None:
    database, server = Database(), Server()
    crowd = Crowd(database, server, calls=1)
    await asyncio.sleep(1)
    server.revoked = True
    await asyncio.sleep(14)
    assert len(server.faults) == RUN_FAULTS
    await crowd.end()


@virtual
async def test_without_a_database_each_worker_probes_for_itself_and_comes_back() -> None:
    database, server = Database(), Server()
    crowds = [Crowd(database, server, calls=2) for _ in range(2)]
    await asyncio.sleep(5)
    database.away = server.revoked = True
    await asyncio.sleep(200)
    assert all(not crowd.upstreams.usable for crowd in crowds)
    server.revoked = False
    await asyncio.sleep(70)
    assert all(crowd.upstreams.usable for crowd in crowds)
    for crowd in crowds:
        await crowd.end()


@virtual
async def test_a_database_that_refuses_at_once_is_not_pressed_whatever_there_is_to_tell() -> None:
    asked: list[float] = []

    async def ask(_statement: str, _values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        asked.append(now())
        assert len(asked) < 100, "asks without end in the same instant"
        raise StoreUnavailableError("InsufficientPrivilege 42501")

    both = [upstream(SERVED, name=name, account=name) for name in ("a", "b")]
    for one in both:
        one.saw(FAULT, now(), now(), probed=False)
    telling = asyncio.create_task(Circuits(upstreams(*both), ask, half).run())
    await asyncio.sleep(5 * LOOK_SECONDS)
    assert 4 <= len(asked) <= 7
    assert all(one.circuit.news for one in both), "it is still to be told"
    telling.cancel()
