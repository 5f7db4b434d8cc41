"""Direct mode on a real Spark and a real Postgres, with no Kafka anywhere: each row once, and early ends."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest
from pyspark.sql import SparkSession

from producer.errors import CanaryError, StoppedError, UnreachableError
from producer.pipeline import publish, reach
from producer.run import Run
from simulator.answers import answer
from tests.fleet import wait_for
from tests.simulated import Simulated, simulated
from tests.spark.producing import make_run, write_job
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@dataclass
class Place:
    """A source, a database and an endpoint; the executors' environment is this test's own."""

    spark: SparkSession
    folder: Path
    database: str
    endpoint: Simulated
    job: str = field(default_factory=lambda: f"job-{uuid.uuid4().hex[:8]}")

    def tell(self, **environ: str) -> None:
        self.spark.sparkContext.environment.update(environ)

    def write(self, rows: int, files: int = 2) -> None:
        frame = self.spark.range(rows).selectExpr("concat('r-', id) AS id", "concat('What of ', id, '?') AS text")
        frame.repartition(files).write.mode("overwrite").parquet(str(self.folder / "rows"))

    def run(self, changes: dict[str, Any] | None = None, **arguments: Any) -> Run:
        # Whoever spoke to Kafka would fail.
        environ = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "DATABASE_URL": self.database}
        path = write_job(self.folder, **{"job": self.job, "mode": "direct", **(changes or {})})
        return make_run(path, environ, **{"no_canary": True, **arguments})

    def answer(self, changes: dict[str, Any] | None = None, **arguments: Any) -> Run:
        run = self.run(changes, **arguments)
        publish(self.spark, run, reach(run))
        return run

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, database: str) -> Iterator[Place]:
    before = dict(spark.sparkContext.environment)
    with simulated() as endpoint:
        made = Place(spark, tmp_path, database, endpoint)
        made.tell(LLM_BASE_URL=endpoint.base_url, LLM_MODEL="simulated", LOG_LEVEL="WARNING")
        yield made
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)


@pytest.mark.slow
def test_a_canary_goes_first_and_no_row_of_it_is_called_again(place: Place) -> None:
    place.write(300)
    run = place.answer({"canary": {"rows": 40}}, no_canary=False)

    assert (run.counts.published, run.told["answered"], run.told["open"]) == (300, 300, 0)
    assert run.forecast is not None
    assert (run.forecast.rows, run.forecast.basis) == (260, "a canary of 40 rows")
    calls = {entry["calls"] for entry in place.endpoint.stats(ids=True)["ids"].values()}
    assert (calls, place.endpoint.stats()["calls"]) == ({1}, 300)
    assert place.sql("SELECT state FROM headrace.jobs WHERE job = %s", place.job) == [("done",)]


def test_a_wrong_key_costs_five_calls_and_ends_the_run_within_its_canary(place: Place) -> None:
    place.write(60)
    place.endpoint.set_script({"api_keys": ["sk-right"], "rules": []})
    place.tell(LLM_API_KEY="sk-wrong")
    run, began = place.run(no_canary=False), time.monotonic()
    with pytest.raises(CanaryError, match="refuses every call"):
        publish(place.spark, run, reach(run))

    assert time.monotonic() - began < 60
    assert place.endpoint.stats()["calls"] <= 5
    assert (run.counts.published, run.counts.held_back) == (1, 59)
    assert place.sql("SELECT state FROM headrace.jobs WHERE job = %s", place.job) == [("cancelled",)]

    place.tell(LLM_API_KEY="sk-right")
    again = place.answer(no_canary=False)
    assert (again.counts.published, again.told["answered"]) == (60, 60)


@pytest.mark.slow
def test_an_endpoint_that_is_away_ends_the_run_within_its_canary(place: Place) -> None:
    place.write(300)
    place.tell(LLM_BASE_URL="http://127.0.0.1:1/v1", DIRECT_PATIENCE_SECONDS="2")
    run = place.run(no_canary=False)
    with pytest.raises(UnreachableError, match="no row had an answer"):
        publish(place.spark, run, reach(run))

    assert (run.counts.published, run.counts.held_back) == (0, 300)
    assert place.endpoint.stats()["calls"] == 0
    assert place.sql("SELECT state FROM headrace.jobs WHERE job = %s", place.job) == [("cancelled",)]


def test_one_that_is_stopped_ends_the_calls_it_has_begun_and_the_next_run_asks_for_the_rest(place: Place) -> None:
    place.write(200)
    place.endpoint.set_script({"rules": [{"name": "slow", "latency_ms": 500}]})
    place.tell(MAX_IN_FLIGHT="20")
    run = place.run()
    asked = threading.Thread(target=lambda: stop_at(place, 20))

    before = signal.signal(signal.SIGTERM, stopped)
    try:
        asked.start()
        with pytest.raises(StoppedError, match="by a signal"):
            publish(place.spark, run, reach(run))
    finally:
        signal.signal(signal.SIGTERM, before)
        asked.join()

    calls = place.endpoint.stats()["calls"]
    assert 20 <= calls < 100
    assert (run.counts.published, run.told["answered"], run.told["open"]) == (calls, calls, 200 - calls)
    assert run.told["in_doubt"] == 0
    answered = "SELECT count(*) FROM headrace.results WHERE job = %s AND status = 'succeeded'"
    assert place.sql(answered, place.job) == [(calls,)]
    again = place.answer()
    assert (again.counts.skipped, again.counts.published) == (calls, 200 - calls)
    assert [entry["calls"] for entry in place.endpoint.stats(ids=True)["ids"].values()] == [1] * 200


def stop_at(place: Place, calls: int) -> None:
    wait_for(lambda: place.endpoint.stats()["calls"] >= calls, 60)
    os.kill(os.getpid(), signal.SIGTERM)


def stopped(*_: object) -> NoReturn:
    raise StoppedError("stopped by a signal")


def test_every_row_is_answered_once_and_a_second_run_asks_nobody(place: Place) -> None:
    place.write(400, files=4)
    run = place.answer()

    assert (run.counts.read, run.counts.published, run.counts.skipped) == (400, 400, 0)
    assert (run.told["answered"], run.told["failed"], run.told["open"], run.told["in_doubt"]) == (400, 0, 0, 0)
    assert run.told["completion_tokens"] > 0
    found = dict(place.sql("SELECT id, result FROM headrace.results WHERE job = %s AND run = %s", place.job, run.id))
    asked = {f"r-{number}": [{"role": "user", "content": f"What of {number}?"}] for number in range(400)}
    assert found == {id_: answer(messages, "simulated") for id_, messages in asked.items()}
    assert place.endpoint.stats()["calls"] == 400
    recorded = place.sql("SELECT state, topic, published FROM headrace.jobs WHERE job = %s", place.job)
    assert recorded == [("done", None, 400)]

    again = place.answer()
    assert (again.counts.published, again.counts.skipped, again.told["answered"]) == (0, 400, 0)
    assert place.endpoint.stats()["calls"] == 400
