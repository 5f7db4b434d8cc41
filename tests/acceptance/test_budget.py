"""Eight workers on a budget of one dollar: spent to the cap and not beyond it, whoever is killed; then resumed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from typer.testing import CliRunner

from control.cli import app
from tests.fleet import Fleet, Worker, fleet, prompts, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, simulated

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]
ROWS, WORKERS, RUN = 10_000, 8, "run-1"
# USD a million tokens; each prompt has 10 tokens, each answer 18 of the 64 that it may have.
PRICE = {"input_per_million": 5, "output_per_million": 10}
COST = Decimal("0.00023")
CAP = Decimal(1)


@pytest.fixture
def endpoint() -> Iterator[Simulated]:
    with simulated(latency_ms=100) as running:
        yield running


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, tmp_path: Path) -> Iterator[Fleet]:
    models = tmp_path / "models.yaml"
    spec = {"endpoints": [{"base_url": endpoint.base_url, "model": "simulated"}], "price": PRICE}
    models.write_text(yaml.safe_dump({"models": {"simulated": spec}}))
    settings = {"MODELS_FILE": str(models), "LLM_BASE_URL": "", "MAX_IN_FLIGHT": "32"}
    with fleet(kafka.bootstrap_servers, postgres.new_database(), tmp_path, endpoint.base_url, **settings) as made:
        made.prepare(partitions=16)
        with psycopg.connect(made.database, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO headrace.jobs (job, run, state, topic, budget_usd) VALUES (%s, %s, 'running', %s, %s)",
                (made.job, RUN, made.topic, CAP),
            )
        made.publish({**one, "run": RUN, "params": {"max_tokens": 64}} for one in prompts(ROWS))
        yield made


def one(world: Fleet, query: str) -> tuple[Any, ...]:
    """One row of what the database says of the job."""
    with psycopg.connect(world.database) as connection:
        found = connection.execute(query.encode(), {"job": world.job}).fetchone()
        assert found is not None, query
        return found


def wait_until_paused(world: Fleet, endpoint: Simulated, seconds: float) -> None:
    query = "SELECT state, paused_for FROM headrace.jobs WHERE job = %(job)s"
    wait_for(lambda: one(world, query) == ("paused", "budget"), seconds, lambda: f"{world.ended()} have ended")
    wait_for(lambda: endpoint.stats()["in_flight"] == 0, 30)
    claimed = (
        "SELECT count(*) FROM headrace.results WHERE job = %(job)s AND status = 'claimed' AND worker IS NOT NULL"
    )
    live = f"{claimed} AND claimed_until > now()"
    wait_for(lambda: one(world, live) == (0,), 90, lambda: f"{one(world, live)} claims are still held")


def spent(world: Fleet) -> tuple[Decimal, Decimal]:
    """What the ledger of calls says that the run has cost: at least and at most."""
    low, high, unknown = one(world, "SELECT low_usd, high_usd, unknown_calls FROM headrace.costs WHERE job = %(job)s")
    assert unknown == 0
    return low, high


def richest(world: Fleet) -> list[Worker]:
    """The workers in the order of the money that they hold and have not spent."""
    query = (
        "SELECT array_agg(worker ORDER BY granted_usd - spent_usd DESC) FROM headrace.spending WHERE job = %(job)s"
    )
    pids = [int(name.split("-")[-2]) for name in one(world, query)[0]]
    return [worker for pid in pids for worker in world.workers if worker.process.pid == pid]


def resume(world: Fleet, usd: str) -> None:
    """Raise the budget as an operator does."""
    mine = {name: None for name in os.environ if name.startswith(("KAFKA_", "LLM_"))}
    words = ["resume", world.job, "--budget-usd", usd]
    ended = CliRunner().invoke(app, words, env={**mine, **world.env}, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output


def test_a_dollar_is_spent_to_its_last_cents_and_more_of_it_completes_the_run(
    world: Fleet, endpoint: Simulated
) -> None:
    began = time.monotonic()
    world.start(WORKERS)
    wait_until_paused(world, endpoint, 300)
    low, high = spent(world)
    billed = COST * endpoint.stats()["billed"]
    print(f"paused after {time.monotonic() - began:.0f} s: ledger {low} to {high}, endpoint {billed}")
    assert Decimal("0.95") <= low <= high <= CAP
    assert billed == low
    assert not world.rows("results", "status = 'failed'")
    assert world.ended() == low / COST < ROWS
    assert all(worker.get("/readyz")[0] == 200 for worker in world.workers)
    resume(world, "5")
    world.wait_until_ended(ROWS, 300)
    assert world.statuses() == {("succeeded", None): ROWS}
    assert endpoint.stats()["billed"] == ROWS
    assert spent(world) == (COST * ROWS, COST * ROWS)
    granted, told = one(world, "SELECT sum(granted_usd), sum(spent_usd) FROM headrace.spending WHERE job = %(job)s")
    assert told <= granted <= 5


def test_two_workers_that_are_killed_on_the_way_do_not_break_the_cap(world: Fleet, endpoint: Simulated) -> None:
    world.start(WORKERS)
    wait_for(lambda: endpoint.stats()["billed"] >= 2000, 120)
    for worker in richest(world)[:2]:
        worker.process.kill()
    wait_until_paused(world, endpoint, 400)
    low, high = spent(world)
    billed = COST * endpoint.stats()["billed"]
    lost = len(world.rows("attempts", "outcome = 'lost'"))
    reclaimed = [e for worker in world.workers for e in worker.events if e["event"] == "budget.reclaimed"]
    print(f"ledger {low} to {high}, endpoint {billed}, lost {lost}, reclaimed from {len(reclaimed)}")
    assert reclaimed
    assert Decimal("0.9") <= billed <= CAP
    assert low <= billed <= high
    assert not world.rows("results", "status = 'failed'")
    resume(world, "5")
    world.wait_until_ended(ROWS, 300)
    assert world.statuses() == {("succeeded", None): ROWS}
    low, high = spent(world)
    assert low <= COST * endpoint.stats()["billed"] <= high
