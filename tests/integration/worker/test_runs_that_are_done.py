"""Runs end as done on a real Kafka and Postgres: by what the group has committed, and no sooner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from control.migrate import migrate
from schemas import kafka as properties
from schemas.settings import DatabaseSettings
from tests.contract.sources import KafkaHarness, eventually
from tests.services import KafkaService, PostgresService
from worker import fleet_sql
from worker.core.orders import Word
from worker.orders import OrderDesk
from worker.runs import Runs
from worker.store import PostgresStore
from worker.watch import KafkaWatch

pytestmark = pytest.mark.integration
SOON = timedelta(seconds=60)


@pytest.fixture
async def broker(kafka: KafkaService) -> AsyncIterator[KafkaHarness]:
    made = KafkaHarness(kafka.bootstrap_servers, "classic")
    await made.make_topic()
    yield made
    await made.close()


@pytest.fixture
def url(postgres: PostgresService) -> Iterator[str]:
    made = postgres.new_database()
    migrate(DatabaseSettings(url=made))
    yield made
    postgres.drop_database(made)


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(DatabaseSettings(url=url), "w")
    await made.open()
    yield made
    await made.close()


def sql(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def run(url: str, name: str, state: str = "running", ago: float = 100, **columns: Any) -> None:
    """Record a run that was told, or begun, so many seconds ago."""
    at = datetime.now(UTC) - timedelta(seconds=ago)
    values = {"job": "j", "run": name, "state": state, "topic": "t", "created_at": at, "updated_at": at, **columns}
    names = ", ".join(values)
    sql(url, f"INSERT INTO headrace.jobs ({names}) VALUES ({', '.join(['%s'] * len(values))})", *values.values())


def states(url: str) -> dict[str, str]:
    return dict(sql(url, "SELECT run, state FROM headrace.jobs"))


async def asked(store: PostgresStore) -> list[str]:
    found = await store.ask(fleet_sql.UNENDED_RUNS, {"settled": 60.0, "most": 20})
    return [name for _, name, _, _ in found]


async def test_what_is_read_until_an_instant_is_what_the_whole_group_has_committed(broker: KafkaHarness) -> None:
    watch = KafkaWatch(properties.common(broker.settings))

    async def is_read(until: datetime) -> bool:
        return await asyncio.to_thread(watch.is_read, broker.group, broker.topic, until)

    began = datetime.now(UTC)
    # Once somebody coordinates the group: the broker's first one comes into being.
    await eventually(lambda: is_read(began + SOON))
    for partition in range(2):
        await broker.publish(b"a", b"b", partition=partition)
    assert not await is_read(began + SOON)
    # Nothing of it was there a minute ago.
    assert await is_read(began - SOON)
    member = await broker.member()
    async with asyncio.timeout(30):
        taken = await member.take(4)
        while len(taken) < 4:
            taken += await member.take(4 - len(taken))
    for item in taken[1:]:
        member.done(item.ticket)
    await asyncio.sleep(0)
    assert not await is_read(began + SOON)
    member.done(taken[0].ticket)
    await eventually(lambda: is_read(began + SOON))
    ended = datetime.now(UTC)
    await broker.publish(b"later")
    assert await is_read(ended)
    assert not await is_read(ended + SOON)
    assert not await asyncio.to_thread(watch.is_read, broker.group, f"{broker.topic}.nowhere", ended)
    nowhere = KafkaWatch({"bootstrap.servers": "127.0.0.1:1"})
    assert not await asyncio.to_thread(nowhere.is_read, broker.group, broker.topic, ended)


async def test_which_runs_are_asked_about(url: str, store: PostgresStore) -> None:
    run(url, "published", published=3)
    run(url, "nothing new", read=3)
    run(url, "just told", published=3, ago=10, job="k")
    run(url, "publishing", ago=90)
    run(url, "direct", published=3, topic=None)
    run(url, "", published=3, ago=200)
    for state in ("canary", "paused", "cancelled", "done"):
        run(url, state, state, published=3, ago=200)
    assert await asked(store) == ["published", "nothing new"]
    # Its producer was killed: the next one has told its counts.
    run(url, "next", published=1, ago=70)
    assert await asked(store) == ["published", "nothing new", "publishing", "next"]


async def test_a_run_is_recorded_as_done_once_and_goes_on_when_more_is_told(url: str, store: PostgresStore) -> None:
    run(url, "r1", published=3, priority=3)
    read: list[str] = []
    runs = Runs(store.ask, lambda topic, _: topic in read, lambda: 1, lambda: 0.0)
    await runs._look()
    assert states(url) == {"r1": "running"}
    read.append("t")
    until = (await store.ask(fleet_sql.UNENDED_RUNS, {"settled": 60.0, "most": 20}))[0][3]
    early = {"job": "j", "run": "r1", "until": until - timedelta(microseconds=1)}
    assert await store.ask(fleet_sql.END_RUN, early) == [(False,)]
    await runs._look()
    assert sql(url, "SELECT state, finished_at IS NOT NULL FROM headrace.jobs") == [("done", True)]
    assert await store.ask(fleet_sql.END_RUN, {"job": "j", "run": "r1", "until": datetime.now(UTC)}) == [(False,)]


async def test_a_message_of_a_run_that_is_done_is_asked_as_ever(url: str, store: PostgresStore) -> None:
    run(url, "r1", "done", published=3, priority=3)
    heard: list[Any] = []
    desk = OrderDesk(store.ask, heard.append, lambda: 0.5, ())
    await desk.open(asyncio.Event())
    assert heard[-1].word("j", "r1", None) is Word.GO
    assert (heard[-1].parked, heard[-1].weights) == (frozenset(), {"t": 8.0})
    # It holds back no pause of another run, and lends it no weight.
    run(url, "r2", "paused", published=3, priority=1)
    await desk._look()
    assert heard[-1].parked == {"t"}
    run(url, "r3", priority=-1, ago=500)
    await desk._look()
    assert (heard[-1].parked, heard[-1].weights) == (frozenset(), {"t": 0.5})
