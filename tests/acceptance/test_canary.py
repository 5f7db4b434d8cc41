"""A canary before the fan-out, with a real fleet: a wrong key, no fleet at all, jobs worth their money or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from pyspark.sql import SparkSession

from producer.errors import CanaryError
from producer.pipeline import publish, reach
from producer.run import Run
from tests.fleet import ROOT, Fleet, fleet, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, simulated
from tests.spark.producing import make_run, write_job, write_rows
from tests.spark.reading_topics import read_all
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

# Half of them are short, and of these two in a hundred ask what another row asks.
ROWS = [(f"r-{n}", f"{'short' if n % 2 else 'long ' * 40} {n if n % 100 else 0}") for n in range(1_000)]
PRICE = {"input_per_million": 100, "output_per_million": 400}


@dataclass
class World:
    """A table, a fleet without workers yet, a simulated endpoint with two models, and Spark."""

    spark: SparkSession
    folder: Path
    fleet: Fleet
    endpoint: Simulated
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": self.fleet.kafka, "DATABASE_URL": self.fleet.database}

    def job(self, **changes: Any) -> Path:
        routes = [{"when": "prompt_chars < 100", "model": "small"}, {"model": "large"}]
        return write_job(
            self.folder, job=self.fleet.job, **{"routes": routes, "params": {"max_tokens": 500}, **changes}
        )

    def run(self, **changes: Any) -> Run:
        """Start the job in this process; what it published stands in its counts, after an error too."""
        return make_run(self.job(**changes), self.environ)

    def publish(self, **changes: Any) -> Run:
        run = self.run(**changes)
        publish(self.spark, run, reach(run))
        return run

    def submit(self) -> tuple[int, dict[str, Any], str, float]:
        """Start it as a program of its own: exit code, last line, what it said, seconds."""
        began = time.monotonic()
        started = self.begin()
        said, complained = started.communicate(timeout=400)
        return started.returncode, json.loads(said.splitlines()[-1]), said + complained, time.monotonic() - began

    def begin(self) -> subprocess.Popen[str]:
        """Start it as a program in a group of processes of its own."""
        submit = Path(sys.executable).with_name("spark-submit")
        quiet = [f"--conf=spark.{name}" for name in ("ui.enabled=false", "sql.shuffle.partitions=2")]
        command = [str(submit), "--master", "local[2]", *quiet, str(ROOT / "producer" / "job.py")]
        command += ["--job", str(self.folder / "job.yaml")]
        settings = {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        environ = {**os.environ, **self.environ, **settings, "SPARK_LOCAL_IP": "127.0.0.1"}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environ, text=True, start_new_session=True, stdout=pipe, stderr=pipe)

    def published(self) -> Counter[str]:
        return Counter((m.key() or b"").decode() for m in read_all(self.fleet.kafka, self.fleet.topic))

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.fleet.database, autocommit=True) as connection:
            return connection.execute(statement.encode(), {"job": self.fleet.job}).fetchall()

    def calls(self) -> Counter[int]:
        """How many rows were called how often."""
        return Counter(entry["calls"] for entry in self.endpoint.stats(ids=True)["ids"].values())


@pytest.fixture
def world(spark: SparkSession, kafka: KafkaService, postgres: PostgresService, tmp_path: Path) -> Iterator[World]:
    write_rows(spark, tmp_path, ROWS, "id string, text string")
    with simulated(latency_ms=20) as endpoint:
        one = {"base_url": endpoint.base_url, "api_key_env": "FLEET_KEY"}
        served = {name: {"endpoints": [one | {"model": name}], "price": PRICE} for name in ("small", "large")}
        (tmp_path / "models.yaml").write_text(yaml.safe_dump({"models": served}))
        (tmp_path / "key").write_text("sk-wrong")
        settings = {"MODELS_FILE": str(tmp_path / "models.yaml"), "LLM_MODEL": "small", "LLM_BASE_URL": ""}
        settings |= {"FLEET_KEY_FILE": str(tmp_path / "key")}
        database = postgres.new_database()
        with fleet(kafka.bootstrap_servers, database, tmp_path, endpoint.base_url, **settings) as made:
            yield World(spark, tmp_path, made, endpoint)


def test_a_wrong_key_costs_five_calls_and_a_minute_and_the_mended_run_asks_every_row_once(world: World) -> None:
    world.endpoint.set_script({"api_keys": ["sk-right"], "rules": []})
    world.fleet.start(3)
    world.job(routes=[])
    code, line, said, seconds = world.submit()
    calls = world.endpoint.stats()["calls"]
    assert (code, line["exit"]) == (3, 3), said
    ((in_canary,),) = world.sql(
        "SELECT extract(epoch FROM finished_at - created_at)::float8 FROM headrace.jobs WHERE job = %(job)s"
    )
    print(f"wrong key: {calls} calls, {seconds:.1f} s from the start, {in_canary:.1f} s from the canary's start")
    assert calls <= 5
    assert in_canary < 60
    assert "status 401" in line["error"]
    assert "canary: " in said
    assert len(world.published()) == line["published"] <= 200
    assert line["read"] == 1_000 == sum(line[n] for n in "published rejected deduplicated skipped held_back".split())
    assert world.sql("SELECT state FROM headrace.jobs WHERE job = %(job)s") == [("cancelled",)]
    wait_for(lambda: not world.fleet.rows("results", "status = 'claimed'"), 30)
    assert world.endpoint.stats()["calls"] == calls

    (world.folder / "key").write_text("sk-right")
    code, line, said, seconds = world.submit()
    assert code == 0, said
    print(f"mended: {seconds:.1f} s, {line['estimate']}")
    assert line["published"] == line["estimate"]["rows"] + 200 == 991
    world.fleet.wait_until_ended(991, 240)
    assert world.fleet.statuses() == {("succeeded", None): 991}
    assert world.endpoint.stats()["billed"] == 991
    assert world.endpoint.stats()["duplicate_bills"] == 0


def test_without_workers_it_is_said_within_30_seconds_and_nothing_is_published(world: World) -> None:
    world.job()
    code, line, said, seconds = world.submit()
    print(f"no workers: {seconds:.1f} s")
    assert (code, line["exit"], line["published"]) == (4, 4, 0)
    assert "producer: no worker is running" in said
    assert "python -m worker" in line["error"]
    assert seconds < 60
    assert not world.published()
    assert world.sql("SELECT count(*) FROM headrace.jobs WHERE job = %(job)s") == [(0,)]


def test_a_good_canary_is_followed_by_the_rest_each_row_called_once(world: World) -> None:
    world.fleet.start(2)
    run = world.publish(budget={"usd": 50})
    assert run.forecast is not None
    assert run.forecast.rows == 991 - 200
    assert (run.counts.published, run.counts.deduplicated, run.counts.held_back) == (991, 9, 0)
    assert set(world.published().values()) == {1}
    assert world.sql("SELECT state, published FROM headrace.jobs WHERE job = %(job)s") == [("running", 991)]
    world.fleet.wait_until_ended(991, 240)
    assert world.calls() == {1: 991}
    ((usd, tokens),) = world.sql("SELECT low_usd::float8, low_tokens FROM headrace.costs WHERE job = %(job)s")
    estimated = run.forecast.usd
    assert estimated is not None
    print(f"cost {usd:.4f} USD, {tokens} tokens; estimate of the rest {estimated}, {run.forecast.tokens}")
    assert 0 < usd - estimated.point < usd / 2

    # Nothing to publish needs no worker and no canary.
    for worker in world.fleet.workers:
        worker.process.terminate()
        worker.end()
    world.sql("DELETE FROM headrace.workers RETURNING worker")
    again = world.publish(budget={"usd": 50})
    assert (again.counts.published, again.counts.skipped, again.counts.deduplicated) == (0, 991, 9)
    assert again.forecast is None


def test_failures_and_a_budget_that_is_too_small_stop_it_and_the_rows_are_asked_again(world: World) -> None:
    world.endpoint.set_script({"rules": [{"match": {"prompt_contains": "long"}, "content_chars": 4_000}]})
    world.fleet.start(2)
    run = world.run()
    with pytest.raises(CanaryError, match=r"of 200 rows failed, more than canary.max_failed 0.05: \d+ truncated"):
        publish(world.spark, run, reach(run))
    first = run.counts
    assert first.imbalance() is None
    assert 0 < first.published <= 200
    assert first.held_back == 991 - first.published

    world.endpoint.set_script({"rules": []})
    run = world.run(budget={"usd": 0.05}, canary={"max_failed": 1})
    with pytest.raises(
        CanaryError, match=r"projected usd of the run, 0\.\d+ .*exceed budget.usd 0.05|budget is used up"
    ):
        publish(world.spark, run, reach(run))
    print(f"stopped for failures after {first}, for the budget after {run.counts}; {run.forecast}")
    assert run.counts.imbalance() is None

    run = world.publish(canary={"rows": 2_000, "max_failed": 1})
    assert run.counts.imbalance() is None
    assert run.counts.held_back == 0
    assert run.forecast is not None
    assert run.forecast.rows == 0
    assert world.fleet.ended() == 991
    assert world.endpoint.stats()["duplicate_bills"] == 0


def test_a_producer_that_is_ended_in_its_canary_leaves_no_run_open(world: World) -> None:
    world.endpoint.set_script({"rules": [{"latency_ms": 3_600_000}]})
    world.fleet.start(1)
    world.job(routes=[])

    def states() -> list[str]:
        return [state for (state,) in world.sql("SELECT state FROM headrace.jobs WHERE job = %(job)s ORDER BY run")]

    def end(started: subprocess.Popen[str], by: signal.Signals, *found: str) -> str:
        """Wait until its canary is under way, and end it with all its processes."""
        wait_for(lambda: states() == [*found], 120, lambda: f"{states()}, exit {started.poll()}")
        os.killpg(started.pid, by)
        return started.communicate(timeout=60)[0]

    told = end(world.begin(), signal.SIGTERM, "canary")
    assert json.loads(told.splitlines()[-1])["exit"] == 3
    assert states() == ["cancelled"]
    end(world.begin(), signal.SIGKILL, "cancelled", "canary")
    assert states() == ["cancelled", "canary"]
    world.sql("UPDATE headrace.jobs SET created_at = created_at - interval '10 s' WHERE job = %(job)s RETURNING run")
    end(world.begin(), signal.SIGTERM, "cancelled", "cancelled", "canary")
