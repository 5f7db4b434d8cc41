"""When the fleet asks the brokers whether runs are done, and what it makes of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.virtual_time import now, virtual
from worker import fleet_sql
from worker.errors import StoreUnavailableError
from worker.runs import Runs

TOLD = datetime(2026, 1, 1, 12, tzinfo=UTC)


class World:
    """A table with two runs, and brokers that know what is read; `away` until an instant."""

    def __init__(self, away: float = 0.0) -> None:
        self.open = [("reviews", "r1", "t.reviews", TOLD), ("tickets", "r1", "t.tickets", TOLD)]
        self.read = {"t.reviews"}
        self.asked: list[tuple[float, str, datetime]] = []
        self.away = away

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if now() < self.away:
            raise StoreUnavailableError("OperationalError")
        if statement == fleet_sql.UNENDED_RUNS:
            return list(self.open)
        self.open = [run for run in self.open if run[:2] != (values["job"], values["run"])]
        return [(True,)]

    def is_read(self, topic: str, until: datetime) -> bool:
        self.asked.append((len(self.asked), topic, until))
        return topic in self.read


@virtual
async def test_a_run_is_done_when_all_that_its_topic_had_is_committed() -> None:
    world = World()
    looking = asyncio.create_task(Runs(world.ask, world.is_read, lambda: 1, lambda: 0.9).run())
    await asyncio.sleep(31)
    assert [run[0] for run in world.open] == ["tickets"]
    # A minute later than its producer said so, for clocks differ.
    assert {until for _, _, until in world.asked} == {TOLD + timedelta(seconds=60)}
    world.read.add("t.tickets")
    await asyncio.sleep(30)
    assert world.open == []
    looking.cancel()


@virtual
async def test_a_fleet_asks_as_often_as_one_worker_does() -> None:
    world = World()
    world.read.clear()
    numbers = iter([n / 10 for n in range(10)] * 100)
    looking = asyncio.create_task(Runs(world.ask, world.is_read, lambda: 10, lambda: next(numbers)).run())
    await asyncio.sleep(30 * 100 + 1)
    assert len(world.asked) == 2 * 10
    looking.cancel()


@virtual
async def test_a_database_that_is_away_is_asked_again() -> None:
    world = World(away=now() + 100)
    looking = asyncio.create_task(Runs(world.ask, world.is_read, lambda: 1, lambda: 0.0).run())
    await asyncio.sleep(99)
    assert len(world.open) == 2
    await asyncio.sleep(40)
    assert len(world.open) == 1
    looking.cancel()
