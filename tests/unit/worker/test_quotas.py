"""Calls leave at the fleet's pace: leased from the database, or in a fair share while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from schemas.statuses import Unit
from tests.fakes.endpoint import FakeEndpoint, answer
from tests.fakes.fleet import half, upstream, upstreams
from tests.fakes.virtual_time import now, virtual
from worker import fleet_sql
from worker.core.outcome import Answer, Kind, Outcome
from worker.core.quota import AHEAD_SECONDS, USED
from worker.core.tokens import Size
from worker.errors import StoreUnavailableError
from worker.meter import Meter
from worker.quotas import Quotas
from worker.upstreams import Upstreams

SERVED = FakeEndpoint(lambda _request: answer())


class Database:
    """Leases as `LEASE` gives them, for all workers; `away` as long as it is set."""

    def __init__(self) -> None:
        self.next_at: dict[tuple[str, str], float] = {}
        self.away = False
        self.asked = 0

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self.asked += 1
        await asyncio.sleep(0.002)
        if self.away:
            raise StoreUnavailableError("OperationalError")
        key = values["endpoint"], values["unit"]
        next_at = self.next_at.get(key, 0.0)
        if statement == fleet_sql.LEASED_UNTIL:
            return [(next_at - now(),)]
        if next_at >= now() + AHEAD_SECONDS:
            return []
        start = max(next_at, now())
        self.next_at[key] = start + values["seconds"]
        return [(start - now(),)]


class Crowd:
    """One worker whose calls take a tenth of a second and never lack work."""

    def __init__(self, database: Database, alive: int = 1, size: Size | None = None, **limits: int) -> None:
        limited = upstream(SERVED, most=256, account="a", meter=Meter.of(limits.get("rpm"), limits.get("tpm")))
        self.upstreams: Upstreams = upstreams(limited, limit=256)
        self.size = size or Size(0)
        self.left: list[float] = []
        quotas = Quotas(self.upstreams, database.ask, lambda: alive, half)
        self.tasks = [asyncio.create_task(quotas.run())]
        self.tasks += [asyncio.create_task(self._call()) for _ in range(40)]

    async def _call(self) -> None:
        while True:
            admission = await self.upstreams.admit("small", self.size)
            self.left.append(now())
            await asyncio.sleep(0.1)
            told = Answer("yes", prompt_tokens=20, completion_tokens=30)
            admission.saw(Outcome(Kind.ANSWERED, answer=told))
            self.upstreams.leave(admission)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@virtual
async def test_two_workers_together_keep_to_one_limit_and_use_it() -> None:
    database = Database()
    began, crowds = now(), [Crowd(database, rpm=6000) for _ in range(2)]
    await asyncio.sleep(60)
    together = sorted(at - began for crowd in crowds for at in crowd.left)
    assert 0.97 * 6000 <= len(together) <= 6000
    for at in range(50):
        assert sum(1 for one in together if at <= one < at + 10) <= 1000
    assert min(len(crowd.left) for crowd in crowds) > 1000
    for crowd in crowds:
        await crowd.end()


@virtual
async def test_a_worker_asks_the_database_a_few_times_a_second_whatever_the_limit() -> None:
    database = Database()
    crowd = Crowd(database, rpm=60_000)
    await asyncio.sleep(10)
    assert database.asked < 10 * 60
    await crowd.end()


@virtual
async def test_while_the_database_is_away_each_worker_keeps_its_fair_share() -> None:
    database = Database()
    crowd = Crowd(database, alive=4, rpm=6000)
    await asyncio.sleep(10)
    database.away = True
    await asyncio.sleep(AHEAD_SECONDS + 1)
    since = now()
    await asyncio.sleep(30)
    share = USED[Unit.REQUESTS] * 100 / 4
    assert sum(1 for at in crowd.left if at >= since) == pytest.approx(30 * share, rel=0.05)
    database.away = False
    await asyncio.sleep(5)
    since = now()
    await asyncio.sleep(10)
    assert sum(1 for at in crowd.left if at >= since) == pytest.approx(10 * share * 4, rel=0.05)
    await crowd.end()


@virtual
async def test_tokens_are_estimated_before_and_settled_after() -> None:
    """Reserved are 1,020 tokens a call, used are 50: at first the former count, and when nobody minds the latter."""
    database = Database()
    crowd = Crowd(database, size=Size(80, 1000), tpm=60_000)
    await asyncio.sleep(30)
    reserved = 1020 * len(crowd.left)
    assert 0.85 * 30_000 <= reserved <= 30_000
    await asyncio.sleep(300)
    since = now()
    await asyncio.sleep(60)
    used = 50 * sum(1 for at in crowd.left if at >= since)
    assert 0.9 * 60_000 <= used <= 60_000
    await crowd.end()


@virtual
async def test_an_endpoint_without_limits_asks_nobody() -> None:
    database = Database()
    crowd = Crowd(database)
    await asyncio.sleep(1)
    assert len(crowd.left) >= 40 * 9
    assert database.asked == 0
    await crowd.end()


@virtual
async def test_a_limit_that_goes_while_another_is_leased_ends_nobody() -> None:
    limited = upstream(SERVED, account="a", meter=Meter.of(60, 6000))
    some, database = upstreams(limited), Database()

    async def ask(statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        limited.meter.tell(60, None)
        return await database.ask(statement, values)

    leasing = asyncio.create_task(Quotas(some, ask, lambda: 1, half).run())
    async with asyncio.timeout(10):
        for _ in range(3):
            some.leave(await some.admit("small"))
    assert not leasing.done()
    leasing.cancel()


@virtual
async def test_a_call_that_may_take_more_than_the_whole_limit_holds_up_the_fleet_for_a_minute_only() -> None:
    limited = upstream(SERVED, account="a", meter=Meter.of(None, 6000))
    some, database, began = upstreams(limited), Database(), now()
    leasing = asyncio.create_task(Quotas(some, database.ask, lambda: 1, half).run())
    async with asyncio.timeout(600):
        some.leave(await some.admit("small", Size(40, 10**9)))
    assert 59 < now() - began < 62
    some.leave(await some.admit("small", Size(40, 100)))
    assert now() - began < 65
    leasing.cancel()
