"""Leases, heartbeats and what else the workers share, on a real Postgres and from several at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from schemas.settings import DatabaseSettings
from worker import fleet_sql
from worker.beacon import GONE_AFTER_SECONDS, Beacon
from worker.core.quota import AHEAD_SECONDS
from worker.store import PostgresStore

pytestmark = pytest.mark.integration


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


FAULT = {"reason": "run_fault", "detail": "status 401", "most": 5, "window": 60.0, "first_probe": 15.0}


async def fault(store: PostgresStore, endpoint: str, faults: int = 1) -> bool:
    ((opened,),) = await store.ask(fleet_sql.FAULTS, {**FAULT, "endpoint": endpoint, "faults": faults})
    return bool(opened)


async def test_faults_of_all_workers_open_a_circuit_together(stores: list[PostgresStore]) -> None:
    found = await asyncio.gather(*(fault(stores[nth % 4], "c") for nth in range(8)))
    assert found.count(False) == 4
    assert ("c", "run_fault", "status 401") in await stores[3].ask(fleet_sql.CIRCUITS, {})
    assert await fault(stores[0], "d", 5)


async def test_faults_that_are_more_than_a_minute_apart_are_not_added(
    database: str, stores: list[PostgresStore]
) -> None:
    assert not await fault(stores[0], "e", 4)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE headrace.circuits SET faulted_at = now() - interval '61 s' WHERE endpoint = 'e'")
    assert not await fault(stores[1], "e", 4)
    assert await fault(stores[2], "e", 1)


async def test_one_worker_probes_at_a_time_and_less_and_less_often(
    database: str, stores: list[PostgresStore]
) -> None:
    async def probe(store: PostgresStore) -> bool:
        return bool(await store.ask(fleet_sql.PROBE, {"endpoint": "f", "slowest": 60.0}))

    await fault(stores[0], "f", 5)
    assert not any([await probe(store) for store in stores])
    waits = []
    for _ in range(4):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE headrace.circuits SET probe_at = now() WHERE endpoint = 'f'")
            assert sum(await asyncio.gather(*map(probe, stores))) == 1
            query = "SELECT extract(epoch FROM probe_at - now())::float8 FROM headrace.circuits WHERE endpoint = 'f'"
            row = connection.execute(query).fetchone()
        waits.append(round(row[0]) if row else 0)
    assert waits == [15, 30, 60, 60]
    await stores[1].ask(fleet_sql.CLOSE, {"endpoint": "f"})
    assert not await probe(stores[0])
    assert not [row for row in await stores[0].ask(fleet_sql.CIRCUITS, {}) if row[0] == "f"]
    assert not await fault(stores[0], "f", 4)
