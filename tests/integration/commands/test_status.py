"""`headrace status` over real workers: at every moment it says what the tables say, and when the run ends."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from control.cli import app
from control.status.document import RunStatus, StatusDocument
from control.status.lag import Lags
from control.status.moment import document
from control.status.reading import facts
from schemas.settings import KafkaSettings
from tests.fleet import Fleet, fleet, prompts, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, simulated

pytestmark = pytest.mark.integration
MOMENTS = 20


@pytest.fixture
def endpoint() -> Iterator[Simulated]:
    with simulated(latency_ms=200) as running:
        yield running


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, tmp_path: Path) -> Iterator[Fleet]:
    database = postgres.new_database()
    with fleet(kafka.bootstrap_servers, database, tmp_path, endpoint.base_url, MAX_IN_FLIGHT="8") as made:
        yield made


def publish(world: Fleet, rows: int) -> None:
    """Publish a run and write it down as its producer does."""
    with psycopg.connect(world.database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO headrace.jobs (job, run, state, topic, read, published)"
            " VALUES (%s, 'r1', 'running', %s, %s, %s)",
            [world.job, world.topic, rows, rows],
        )
    world.publish([{**message, "run": "r1"} for message in prompts(rows)])


def status(world: Fleet, *words: str, **settings: str) -> Result:
    mine = {name: None for name in os.environ if name.startswith(("KAFKA_", "LLM_"))}
    return CliRunner().invoke(app, ["status", *words], env={**mine, **world.env, **settings}, catch_exceptions=False)


def truth(connection: psycopg.Connection[Any], job: str) -> dict[str, int]:
    """The plain questions, each of its own."""
    asked = {
        "succeeded": "results WHERE status = 'succeeded' AND",
        "failed": "results WHERE status = 'failed' AND",
        "in_flight": "results WHERE status = 'claimed' AND claimed_until > now() AND",
        "calls": "attempts WHERE",
    }
    counts = {
        name: connection.execute(f"SELECT count(*) FROM headrace.{what} job = %s AND run = 'r1'", [job])
        for name, what in asked.items()
    }
    return {name: cursor.fetchone()[0] for name, cursor in counts.items()}  # type: ignore[index]


def moment(world: Fleet, lags: Lags) -> tuple[StatusDocument, dict[str, int]]:
    """What is told and what is true, of one snapshot."""
    with closing(psycopg.connect(world.database)) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = facts(connection, world.job, 5)
        return document(found, lags.of([world.topic])), truth(connection, world.job)


def the_run(found: StatusDocument) -> RunStatus:
    (run,) = found.runs
    return run


def test_at_twenty_moments_of_a_live_run_it_tells_what_the_tables_say(world: Fleet, endpoint: Simulated) -> None:
    rows = 400
    endpoint.set_script({"rules": [{"match": {"prompt_contains": "7?"}, "status": 400}]})
    publish(world, rows)
    lags = Lags(KafkaSettings(bootstrap_servers=world.kafka), world.job)
    world.start(2)
    seen = set()
    for nth in range(MOMENTS):
        world.wait_until_ended(rows * nth // MOMENTS)
        found, known = moment(world, lags)
        run = the_run(found)
        told = {
            "succeeded": run.succeeded,
            "failed": run.failed,
            "in_flight": run.in_flight,
            "calls": run.spend.calls,
        }
        assert told == known
        assert sum(run.failed_by_reason.values()) == run.failed
        assert run.left is not None
        assert run.left <= rows - run.succeeded - run.failed
        seen.add((run.succeeded, run.failed))
    assert len(seen) > MOMENTS // 2
    world.wait_until_ended(rows)
    wait_for(lambda: world.lag() == 0, 30)
    ended = json.loads(status(world, world.job, "--json").stdout)
    StatusDocument.model_validate(ended)
    (run_,) = ended["runs"]
    assert run_["succeeded"] == world.statuses()["succeeded", None]
    assert run_["failed_by_reason"] == {"rejected_request": world.statuses()["failed", "rejected_request"]}
    assert (run_["left"], run_["in_flight"], len(ended["workers"])) == (0, 0, 2)
    assert sum(part["lag"] for part in ended["lag"]) == 0


def test_without_kafka_it_tells_what_the_database_knows(world: Fleet) -> None:
    publish(world, 3)
    ended = status(world, KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1")
    assert ended.exit_code == 4
    assert "published 3" in ended.stdout
    assert "not read: kafka: 127.0.0.1:1" in ended.stdout


def test_a_job_that_nobody_knows_and_a_database_that_is_away_are_told_apart(world: Fleet) -> None:
    unknown = status(world, "no-such-job")
    assert (unknown.exit_code, "no job no-such-job" in unknown.stderr) == (2, True)
    away = status(world, DATABASE_URL="postgresql://headrace@127.0.0.1:1/headrace")
    assert (away.exit_code, "Check DATABASE_URL" in away.stderr) == (4, True)


@pytest.mark.slow
def test_after_a_tenth_of_a_steady_run_the_end_is_told_within_a_fifth(world: Fleet) -> None:
    rows = 2400
    publish(world, rows)
    lags = Lags(KafkaSettings(bootstrap_servers=world.kafka), world.job)
    world.start(1)
    wait_for(lambda: world.ended() >= rows // 10, 60)
    said, at = the_run(moment(world, lags)[0]).eta, time.monotonic()
    world.wait_until_ended(rows, 180)
    took = time.monotonic() - at
    assert said is not None
    assert said.seconds == pytest.approx(took, rel=0.2), said
