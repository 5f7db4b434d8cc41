"""Leases, heartbeats and what else the workers share, on a real Postgres and from several at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from control.migrate import migrate
from schemas.settings import DatabaseSettings
from tests.services import PostgresService
from worker import fleet_sql
from worker.beacon import GONE_AFTER_SECONDS, Beacon
from worker.core.quota import AHEAD_SECONDS
from worker.store import PostgresStore

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def database(postgres: PostgresService) -> str:
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    return url


@pytest_asyncio.fixture
async def stores(database: str) -> AsyncIterator[list[PostgresStore]]:
    made = [PostgresStore(DatabaseSettings.read({"DATABASE_URL": database}), f"w-{nth}") for nth in range(4)]
    for store in made:
        await store.open()
    yield made
    for store in made:
        await store.close()


async def lease(store: PostgresStore, endpoint: str, seconds: float) -> float | None:
    """When a lease begins, on this process's clock; None when too much is leased out."""
    values = {"endpoint": endpoint, "unit": "requests", "seconds": seconds, "ahead": AHEAD_SECONDS}
    rows = await store.ask(fleet_sql.LEASE, values)
    return asyncio.get_running_loop().time() + float(rows[0][0]) if rows else None


async def test_no_two_workers_hold_the_same_stretch(stores: list[PostgresStore]) -> None:
    async def take(store: PostgresStore) -> list[float]:
        found = []
        for _ in range(40):
            if (start := await lease(store, "a", 0.05)) is not None:
                found.append(start)
            else:
                await asyncio.sleep(0.05)
        return found

    starts = sorted(start for found in await asyncio.gather(*map(take, stores)) for start in found)
    assert len(starts) >= 40
    # Both ends of a lease were told over a network that takes a moment.
    assert min(after - before for before, after in itertools.pairwise(starts)) > 0.05 - 0.03


async def test_no_lease_begins_too_far_ahead(stores: list[PostgresStore]) -> None:
    assert await lease(stores[0], "b", AHEAD_SECONDS + 5) is not None
    assert await lease(stores[1], "b", 0.1) is None
    until = await stores[1].ask(fleet_sql.LEASED_UNTIL, {"endpoint": "b", "unit": "requests"})
    assert AHEAD_SECONDS + 4 < until[0][0] <= AHEAD_SECONDS + 5


async def test_workers_are_counted_while_they_say_that_they_live(database: str, stores: list[PostgresStore]) -> None:
    beacons = [Beacon(store.ask, f"w-{nth}", lambda: (1, 2)) for nth, store in enumerate(stores)]
    for beacon in (*beacons, beacons[0]):
        await beacon._beat()
    assert beacons[0].alive == 4
    await beacons[3].leave()
    with psycopg.connect(database, autocommit=True) as connection:
        late = "UPDATE headrace.workers SET seen_at = now() - make_interval(secs => %s) WHERE worker = 'w-2'"
        connection.execute(late, (GONE_AFTER_SECONDS + 1,))
    await beacons[0]._beat()
    assert beacons[0].alive == 2
