"""Pause, cancel and priority with real workers: who is called when, what is left, and who notices nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
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

pytestmark = [pytest.mark.integration, pytest.mark.slow]
# Ids of the second job begin here, so that the endpoint's counts tell the jobs apart.
OTHERS = 100_000
SOON = 5.0


@pytest.fixture
def endpoint() -> Iterator[Simulated]:
    with simulated(latency_ms=200) as running:
        yield running


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, tmp_path: Path) -> Iterator[Fleet]:
    database = postgres.new_database()
    with fleet(kafka.bootstrap_servers, database, tmp_path, endpoint.base_url, MAX_IN_FLIGHT="16") as made:
        yield made


@pytest.fixture
def other(world: Fleet) -> Fleet:
    """A second job of the same workers."""
    made = Fleet(world.kafka, world.database, world.folder, world.base_url, job=f"{world.job}.other")
    made.prepare()
    return made


def order(world: Fleet, *words: str) -> str:
    """Give an order as an operator does."""
    mine = {name: None for name in os.environ if name.startswith(("KAFKA_", "LLM_"))}
    ended = CliRunner().invoke(app, list(words), env={**mine, **world.env}, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def record(world: Fleet, run: str, **columns: Any) -> None:
    """Write a run down as its producer does."""
    values = {"job": world.job, "run": run, "state": "running", "topic": world.topic, **columns}
    with psycopg.connect(world.database, autocommit=True) as connection:
        marks = ", ".join(["%s"] * len(values))
        connection.execute(f"INSERT INTO headrace.jobs ({', '.join(values)}) VALUES ({marks})", [*values.values()])


def calls(endpoint: Simulated) -> tuple[int, int]:
    """Calls of the first job and of the second."""
    counts = {int(id_.removeprefix("r-")): entry["calls"] for id_, entry in endpoint.stats(ids=True)["ids"].items()}
    first = sum(count for number, count in counts.items() if number < OTHERS)
    return first, sum(counts.values()) - first


def rebalances(worker: Worker) -> str:
    return next(
        line for line in worker.get("/metrics")[1].splitlines() if line.startswith("headrace_rebalances_total")
    )


def metric(worker: Worker, name: str) -> float:
    lines = worker.get("/metrics")[1].splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_a_paused_job_is_not_called_holds_nobody_back_and_goes_on_where_it_was(
    world: Fleet, other: Fleet, endpoint: Simulated
) -> None:
    world.publish(prompts(800))
    other.publish(prompts(3000, start=OTHERS))
    # A share of each topic for each worker, so that all of the fleet has work for both jobs.
    workers = world.start(2, KAFKA_CONSUMER_CONF="partition.assignment.strategy=roundrobin")
    wait_for(lambda: min(calls(endpoint)) > 100, 60)
    groups = [metric(worker, "headrace_rebalances_total") for worker in workers]
    order(world, "pause", world.job)
    began, before = time.monotonic(), calls(endpoint)
    time.sleep(SOON)
    still, _ = calls(endpoint)
    time.sleep(SOON)
    after = calls(endpoint)
    assert after[0] == still, "no call begins once 5 s are over"
    assert still < 800
    # 32 places at 200 ms are 160 calls a second, of which the machine may take its part.
    rate = (after[1] - before[1]) / (time.monotonic() - began)
    assert rate > 160 * 0.7, f"{rate:.0f} calls a second"
    assert [metric(worker, "headrace_rebalances_total") for worker in workers] == groups
    assert [metric(worker, "headrace_parked_partitions") for worker in workers] == [3, 3]
    assert world.lag() > 0
    order(world, "resume", world.job)
    world.wait_until_ended(800)
    other.wait_until_ended(3000)
    assert endpoint.stats()["calls"] == 3800
    assert endpoint.stats()["duplicate_bills"] == 0
    assert world.statuses() == {("succeeded", None): 800}
    assert [metric(worker, "headrace_rebalances_total") for worker in workers] == groups
    wait_for(lambda: world.lag() == 0, 20, lambda: f"lag {world.lag()}")


def test_a_cancelled_job_ends_without_further_calls_and_a_later_run_asks_again(
    world: Fleet, endpoint: Simulated
) -> None:
    record(world, "run-1")
    world.publish({**message, "run": "run-1"} for message in prompts(2000))
    (worker,) = world.start(1)
    wait_for(lambda: world.ended() > 100, 60)
    order(world, "cancel", world.job, "--yes")
    time.sleep(SOON)
    called = calls(endpoint)[0]
    world.wait_until_ended(2000, 60)
    wait_for(lambda: world.lag() == 0, 20, lambda: f"lag {world.lag()}")
    assert calls(endpoint)[0] == called
    statuses = world.statuses()
    assert set(statuses) == {("succeeded", None), ("failed", "cancelled")}
    assert statuses["succeeded", None] == called
    assert len(world.rows("attempts")) == called
    assert metric(worker, 'headrace_messages_total{outcome="cancelled"}') == 2000 - called
    record(world, "run-2")
    world.publish({**message, "run": "run-2"} for message in prompts(2000))
    wait_for(lambda: world.statuses() == {("succeeded", None): 2000}, 60, lambda: str(world.statuses()))
    assert endpoint.stats()["duplicate_bills"] == 0


def test_jobs_share_a_limited_endpoint_by_priority_and_the_lowest_moves(
    world: Fleet, other: Fleet, endpoint: Simulated
) -> None:
    record(world, "low", priority=0)
    record(other, "high", priority=2)
    world.publish({**message, "run": "low"} for message in prompts(2000))
    other.publish({**message, "run": "high"} for message in prompts(4000, start=OTHERS))
    world.start(1)
    # The first calls leave before both topics are there.
    wait_for(lambda: min(calls(endpoint)) > 20, 60)
    low, high = calls(endpoint)
    wait_for(lambda: sum(calls(endpoint)) - low - high > 800, 60)
    now_low, now_high = calls(endpoint)
    assert (now_high - high) / (now_low - low) == pytest.approx(4.0, rel=0.2)


def test_a_job_whose_endpoint_is_dead_does_not_hold_back_another(
    world: Fleet, other: Fleet, endpoint: Simulated, tmp_path: Path
) -> None:
    path = tmp_path / "models.yaml"
    models = {
        "dead": {"endpoints": [{"base_url": "http://127.0.0.1:1/v1", "model": "x"}]},
        "alive": {"endpoints": [{"base_url": endpoint.base_url, "model": "simulated"}]},
    }
    path.write_text(yaml.safe_dump({"models": models}))
    (worker,) = world.start(1, MODELS_FILE=str(path), LLM_MODEL="alive", LLM_BASE_URL="")
    world.publish({**message, "model": "dead"} for message in prompts(3000))
    wait_for(lambda: metric(worker, "headrace_open_prompts") >= 16, 60)
    other.publish({**message, "model": "alive"} for message in prompts(800, start=OTHERS))
    wait_for(lambda: calls(endpoint)[1] > 0, 60)
    began = time.monotonic()
    other.wait_until_ended(800, 60)
    assert time.monotonic() - began < 800 / (16 / 0.2) * 1.5 + 3
    assert endpoint.stats()["max_in_flight"] >= 15
    assert world.ended() == 0


def test_a_worker_killed_while_its_job_is_paused_leaves_the_job_paused_and_whole(
    world: Fleet, endpoint: Simulated
) -> None:
    quick = {"KAFKA_CONSUMER_CONF": "session.timeout.ms=6000,heartbeat.interval.ms=500"}
    world.publish(prompts(600))
    first, _ = world.start(2, **quick)
    wait_for(lambda: calls(endpoint)[0] > 100, 60)
    order(world, "pause", world.job)
    time.sleep(SOON)
    called = calls(endpoint)[0]
    assert called < 600
    first.process.kill()
    first.end()
    (late,) = world.start(1, **quick)
    wait_for(lambda: late.get("/readyz")[0] == 200, 40)
    wait_for(lambda: metric(late, "headrace_parked_partitions") > 0, 40)
    assert calls(endpoint)[0] == called
    order(world, "resume", world.job)
    world.wait_until_ended(600, 60)
    assert endpoint.stats()["calls"] == 600
    assert endpoint.stats()["duplicate_bills"] == 0
    assert not world.rows("attempts", "billed = 'maybe'")
