"""Draws from a budget on a real Postgres: the fake's word for word, from several at once, and what the dead leave."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from schemas.settings import DatabaseSettings
from schemas.statuses import Billed
from tests.fakes.bank import Budget, draw
from tests.fakes.samples import called, finished, work
from tests.fleet import wait_for
from worker import fleet_sql
from worker.core.amounts import Bound
from worker.core.budget import SILENT_SECONDS
from worker.store import PostgresStore

pytestmark = pytest.mark.integration
NONE = [Decimal(0), Decimal(0)]
LOST = Bound(Decimal("0.07"), 70)


@pytest_asyncio.fixture
async def stores(database: str) -> AsyncIterator[list[PostgresStore]]:
    settings = DatabaseSettings.read({"DATABASE_URL": database})
    made = [PostgresStore(settings, f"w-{nth}", lambda _: LOST) for nth in range(4)]
    for store in made:
        await store.open()
    yield made
    for store in made:
        await store.close()


def run_of(database: str, usd: str | None = "1", tokens: int | None = None) -> dict[str, str]:
    """A new run with a budget."""
    run = {"job": f"job-{uuid.uuid4().hex[:8]}", "run": "run-1"}
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO headrace.jobs (job, run, state, budget_usd, budget_tokens)"
            " VALUES (%(job)s, %(run)s, 'running', %(usd)s, %(tokens)s)",
            {**run, "usd": usd, "tokens": tokens},
        )
    return run


def said(database: str, query: str, run: dict[str, str]) -> tuple[Any, ...]:
    with psycopg.connect(database) as connection:
        found = connection.execute(query.encode(), run).fetchone()
        assert found is not None
        return found


def wish(usd: str, **fields: Any) -> dict[str, Any]:
    """A worker with nothing but a call that waits for so much money."""
    amount = [Decimal(usd), Decimal(0)]
    one = {"keeps": NONE, "spent": NONE, "reserved": NONE, "smallest": amount, "largest": amount, "wish": amount}
    return {**one, "workers": 1, "stuck": True, **fields}


async def test_a_draw_says_what_the_fake_says_word_for_word(database: str, stores: list[PostgresStore]) -> None:
    chance = random.Random(11)
    amounts = [[Decimal(0), Decimal(0)], [Decimal("0.01"), Decimal(10)], [Decimal("0.003"), Decimal(7)]]
    amounts += [[Decimal("0.4"), Decimal(300)], [Decimal("0.000123456789"), Decimal(1)]]
    words = set()
    for usd, tokens in (("1", None), (None, 1000), ("1.000000000001", 900)):
        run = run_of(database, usd, tokens)
        budget = Budget((None if usd is None else Decimal(usd), None if tokens is None else Decimal(tokens)))
        masks = [Decimal(limit is not None) for limit in budget.limits]
        for step in range(150):
            values: dict[str, Any] = {
                name: [part * mask for part, mask in zip(chance.choice(amounts), masks, strict=True)]
                for name in ("keeps", "spent", "reserved", "smallest", "largest", "wish")
            }
            if chance.random() < 0.6:
                # More than was granted: such a worker holds nothing that others could wait for.
                values["spent"] = [2 * masks[0], 2000 * masks[1]]
            values |= {"worker": f"w-{chance.randrange(4)}", "workers": chance.randint(1, 8)}
            values["stuck"] = chance.random() < 0.3
            expected = draw(budget, float(step), **values)
            found = await stores[0].ask(fleet_sql.DRAW, {**run, **values})
            assert found == expected, (step, values)
            words.add(found[0][0])
            if found[0][0] == "used_up":
                budget.state = "running"
                said(database, "UPDATE headrace.jobs SET state = 'running' WHERE job = %(job)s RETURNING 1", run)
    assert words == {"granted", "later", "used_up"}


async def test_draws_of_many_at_once_never_exceed_the_budget_and_use_all_of_it(
    database: str, stores: list[PostgresStore]
) -> None:
    run = run_of(database)

    async def spend(nth: int) -> str:
        spent, kept, step = Decimal(0), Decimal(0), Decimal("0.0007")
        while True:
            values = wish("0.0007", worker=f"w-{nth}", workers=4, wish=[Decimal("0.01"), Decimal(0)])
            values |= {"keeps": [kept, Decimal(0)], "spent": [spent, Decimal(0)]}
            ((word, kept, _),) = await stores[nth % 4].ask(fleet_sql.DRAW, {**run, **values})
            while spent + step <= kept:
                spent += step
            if word in ("used_up", "paused"):
                return str(word)
            kept = spent if word == "later" else kept

    words = await asyncio.gather(*map(spend, range(8)))
    assert words.count("used_up") == 1
    query = "SELECT sum(granted_usd), sum(spent_usd) FROM headrace.spending WHERE job = %(job)s"
    granted, spent = said(database, query, run)
    assert granted <= 1
    assert 1 - Decimal("0.0007") < spent <= 1
    states = said(database, "SELECT state, paused_for FROM headrace.jobs WHERE job = %(job)s", run)
    assert states == ("paused", "budget")


async def test_a_draw_waits_for_the_one_before_it(database: str, stores: list[PostgresStore]) -> None:
    run = run_of(database, "0.1")
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with await psycopg.AsyncConnection.connect(database) as first:
        await first.execute(fleet_sql.DRAW, {**run, **wish("0.1", worker="w-0")})
        second = asyncio.create_task(stores[1].ask(fleet_sql.DRAW, {**run, **wish("0.01", worker="w-1")}))
        await asyncio.to_thread(wait_for, lambda: second.done() or said(database, waits, run) != (0,), 10)
        assert not second.done()
    assert (await second)[0] == ("later", Decimal(0), Decimal(0))


async def test_a_raised_budget_gives_what_it_adds(database: str, stores: list[PostgresStore]) -> None:
    run = run_of(database, "0.1")
    spent = [Decimal("0.1"), Decimal(0)]
    await stores[0].ask(fleet_sql.DRAW, {**run, **wish("0.1", worker="w-0")})
    tired = {**run, **wish("0.01", worker="w-0", keeps=spent, spent=spent)}
    assert (await stores[0].ask(fleet_sql.DRAW, tired))[0][0] == "used_up"
    assert (await stores[0].ask(fleet_sql.DRAW, tired))[0][0] == "paused"
    said(
        database, "UPDATE headrace.jobs SET budget_usd = 0.3, state = 'running' WHERE job = %(job)s RETURNING 1", run
    )
    assert await stores[0].ask(fleet_sql.DRAW, tired) == [("granted", Decimal("0.11"), Decimal(0))]


async def test_a_run_without_a_budget_and_an_unknown_one_grant_nothing(
    database: str, stores: list[PostgresStore]
) -> None:
    for run in (run_of(database, None), {"job": "nobody", "run": "r"}):
        assert await stores[0].ask(fleet_sql.DRAW, {**run, **wish("0.1", worker="w-0")}) == []
        assert said(database, "SELECT count(*) FROM headrace.spending WHERE job = %(job)s", run) == (0,)


async def test_runs_are_known_by_their_budgets(database: str, stores: list[PostgresStore]) -> None:
    usd, both, none = run_of(database), run_of(database, "1", 5), run_of(database, None)
    whole = run_of(database, None, 7)
    said(database, "UPDATE headrace.jobs SET run = '' WHERE job = %(job)s RETURNING 1", whole)
    asked = {
        "job": [usd["job"], both["job"], none["job"], whole["job"], whole["job"]],
        "run": ["run-1", "run-1", "run-1", "", "never recorded"],
    }
    assert sorted(await stores[0].ask(fleet_sql.BUDGETS, asked)) == sorted(
        [
            (usd["job"], "run-1", "run-1", True, False),
            (both["job"], "run-1", "run-1", True, True),
            (whole["job"], "", "", False, True),
            (whole["job"], "never recorded", "", False, True),
        ]
    )


async def holds(store: PostgresStore, run: dict[str, str], worker: str, usd: str, spent: str = "0") -> None:
    """Let a worker be granted so much."""
    amounts = {"largest": [Decimal(usd), Decimal(0)], "spent": NONE}
    assert (await store.ask(fleet_sql.DRAW, {**run, **wish(usd, worker=worker, **amounts)}))[0][0] == "granted"
    kept = {"keeps": [Decimal(usd), Decimal(0)], "spent": [Decimal(spent), Decimal(0)]}
    await store.ask(fleet_sql.DRAW, {**run, **wish("0", worker=worker, stuck=False, **kept)})


def silent(database: str, run: dict[str, str], seconds: float = SILENT_SECONDS + 1) -> None:
    query = "UPDATE headrace.spending SET updated_at = now() - make_interval(secs => %(silent)s) WHERE job = %(job)s"
    said(database, f"{query} RETURNING 1", {**run, "silent": seconds})  # type: ignore[dict-item]


async def test_what_a_dead_worker_did_not_spend_comes_back_when_its_last_calls_are_on_record(
    database: str, stores: list[PostgresStore]
) -> None:
    run = run_of(database)
    dead, heir = stores[0], stores[1]
    works = [work(f"r-{nth}", job=run["job"], run="run-1") for nth in range(2)]
    for one, claim in zip(works, await dead.claim(works), strict=True):
        one.claim = claim
    await dead.finish([finished(works[0])], [called(works[0], cost_usd=Decimal("0.02"))])
    await holds(dead, run, "w-0", "0.5", "0.01")
    reclaim = {**run, "silent": SILENT_SECONDS}
    assert await heir.ask(fleet_sql.RECLAIM, reclaim) == []
    silent(database, run)
    assert await heir.ask(fleet_sql.RECLAIM, reclaim) == [], "one of its claims has not been taken over"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE headrace.results SET claimed_until = now() - interval '1 s'")
    (taken,) = await heir.claim([works[1]])
    assert taken.lost
    assert await heir.ask(fleet_sql.RECLAIM, reclaim) == [("w-0", Decimal("0.09"), 0)]
    assert await heir.ask(fleet_sql.RECLAIM, reclaim) == []
    query = "SELECT granted_usd, spent_usd FROM headrace.spending WHERE job = %(job)s AND worker = 'w-0'"
    assert said(database, query, run) == (Decimal("0.09"), Decimal("0.09"))


async def test_where_the_cost_of_a_lost_call_cannot_be_told_all_counts_as_spent(
    database: str, stores: list[PostgresStore]
) -> None:
    run = run_of(database)
    one = work("r-1", job=run["job"], run="run-1")
    (one.claim,) = await stores[0].claim([one])
    lines = [called(one, billed=Billed.MAYBE, prompt_tokens=None, completion_tokens=None)]
    await stores[0].finish([finished(one)], lines)
    await holds(stores[0], run, "w-0", "0.5")
    silent(database, run)
    assert await stores[1].ask(fleet_sql.RECLAIM, {**run, "silent": SILENT_SECONDS}) == [("w-0", Decimal("0.5"), 0)]


async def test_a_worker_that_is_heard_of_keeps_its_grant_and_one_that_comes_back_learns_of_its_loss(
    database: str, stores: list[PostgresStore]
) -> None:
    run = run_of(database)
    await holds(stores[0], run, "w-0", "0.5", "0.1")
    reclaim = {**run, "silent": SILENT_SECONDS}
    assert await stores[1].ask(fleet_sql.RECLAIM, reclaim) == []
    silent(database, run)
    assert await stores[1].ask(fleet_sql.RECLAIM, reclaim) == [("w-0", Decimal("0.1"), 0)]
    kept = {"keeps": [Decimal("0.5"), Decimal(0)], "spent": [Decimal("0.1"), Decimal(0)]}
    ((_, granted, _),) = await stores[0].ask(fleet_sql.DRAW, {**run, **wish("0", worker="w-0", stuck=False, **kept)})
    assert granted == Decimal("0.1")


async def test_the_last_to_lack_money_pauses_the_run_unless_another_holds_some(
    database: str, stores: list[PostgresStore]
) -> None:
    run = run_of(database, "0.1")
    await holds(stores[0], run, "w-0", "0.1")
    lacking = {**run, **wish("0.01", worker="w-1")}
    assert (await stores[1].ask(fleet_sql.DRAW, lacking))[0][0] == "later"
    silent(database, run, 149)
    assert (await stores[1].ask(fleet_sql.DRAW, lacking))[0][0] == "later"
    said(
        database,
        "UPDATE headrace.spending SET updated_at = now() - interval '151 s' WHERE job = %(job)s RETURNING 1",
        run,
    )
    assert (await stores[1].ask(fleet_sql.DRAW, lacking))[0][0] == "used_up"


async def test_totals_are_a_range_where_calls_may_have_been_billed(
    database: str, stores: list[PostgresStore]
) -> None:
    run = run_of(database)
    works = [work(f"r-{nth}", job=run["job"], run="run-1") for nth in range(4)]
    for one, claim in zip(works, await stores[0].claim(works), strict=True):
        one.claim = claim
    unknown: dict[str, Any] = {"prompt_tokens": None, "completion_tokens": None, "billed": Billed.MAYBE}
    lines = [
        called(works[0], cost_usd=Decimal("0.02")),
        called(works[1], cost_bound_usd=Decimal("0.05"), tokens_bound=100, **unknown),
        called(works[2], **{**unknown, "billed": Billed.NO}),
    ]
    await stores[0].finish([], lines)
    query = """SELECT calls, maybe_billed, low_usd, high_usd, unknown_calls, low_tokens, high_tokens
        FROM headrace.costs WHERE job = %(job)s AND run = %(run)s"""
    assert said(database, query, run) == (3, 1, Decimal("0.02"), Decimal("0.07"), 0, 9, 109)
    await stores[0].finish([], [called(works[3], **unknown)])
    assert said(database, query, run) == (4, 2, Decimal("0.02"), Decimal("0.07"), 1, 9, 109)
