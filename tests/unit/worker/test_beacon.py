"""A worker says that it lives and hears how many do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.fakes.virtual_time import virtual
from worker import fleet_sql
from worker.beacon import BEAT_SECONDS, Beacon
from worker.errors import StoreUnavailableError


class Database:
    def __init__(self) -> None:
        self.workers = 3
        self.away = False
        self.said: list[tuple[str, Mapping[str, Any]]] = []

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if self.away:
            raise StoreUnavailableError("OperationalError")
        self.said.append((statement, values))
        return [(self.workers,)]


@virtual
async def test_the_last_word_stands_while_the_database_is_away() -> None:
    database = Database()
    beacon = Beacon(database.ask, "w-1", lambda: (7, 9))
    assert beacon.alive == 1
    running = asyncio.create_task(beacon.run())
    await asyncio.sleep(BEAT_SECONDS / 2)
    assert beacon.alive == 3
    database.away = True
    await asyncio.sleep(100)
    assert beacon.alive == 3
    database.away, database.workers = False, 5
    await asyncio.sleep(BEAT_SECONDS)
    assert beacon.alive == 5
    assert database.said[0][1] == {"worker": "w-1", "in_flight": 7, "open": 9, "gone_after": 15.0}
    running.cancel()


@virtual
async def test_a_goodbye_is_said_once_and_waits_for_nobody() -> None:
    database = Database()
    await Beacon(database.ask, "w-1", lambda: (0, 0)).leave()
    assert database.said == [(fleet_sql.GONE, {"worker": "w-1"})]
    database.away = True
    await Beacon(database.ask, "w-1", lambda: (0, 0)).leave()
