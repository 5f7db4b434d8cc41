"""Direct mode whose Spark tasks fail, are killed and run again: compared by the endpoint's own ledger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from control.migrate import migrate
from schemas.settings import DatabaseSettings
from tests.fleet import ROOT, wait_for
from tests.services import PostgresService
from tests.simulated import Simulated, simulated
from tests.spark.producing import write_job

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = 2400
IN_FLIGHT = 8
TASKS = 2


@dataclass
class World:
    """A source in two files, a database, an endpoint, and the job as a process of its own."""

    folder: Path
    database: str
    endpoint: Simulated
    job: str = field(default_factory=lambda: f"job-{uuid.uuid4().hex[:8]}")

    def write(self) -> None:
        (self.folder / "rows").mkdir()
        for part in range(TASKS):
            ids = [f"r-{number}" for number in range(part, ROWS, TASKS)]
            table = pa.table({"id": ids, "text": [f"What of {id_}?" for id_ in ids]})
            pq.write_table(table, self.folder / f"rows/{part}.parquet")

    def start(self, *, trouble: bool) -> subprocess.Popen[str]:
        path = write_job(self.folder, job=self.job, mode="direct")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "KAFKA_"))}
        environ |= {"DATABASE_URL": self.database, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
        environ |= {"LLM_BASE_URL": self.endpoint.base_url, "LLM_MODEL": "simulated"}
        environ |= {"MAX_IN_FLIGHT": str(IN_FLIGHT), "PYTHONPATH": str(ROOT), "LOG_LEVEL": "WARNING"}
        if not trouble:
            (self.folder / "failed").touch()
        command = [sys.executable, "-m", "tests.spark.troubled_job", f"local[{TASKS},4]", str(self.folder)]
        command += ["--job", str(path), "--no-canary"]
        errors = (self.folder / "errors.txt").open("w")
        return subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True)

    def end(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        out, _ = process.communicate(timeout=300)
        line: dict[str, Any] = json.loads(out.splitlines()[-1])
        assert line["exit"] == process.returncode
        return line

    def ended(self) -> int:
        return int(self.sql("SELECT count(*) FROM headrace.results WHERE job = %s AND status <> 'claimed'")[0][0])

    def maybe(self) -> list[tuple[Any, ...]]:
        return self.sql("SELECT id, outcome FROM headrace.attempts WHERE job = %s AND billed = 'maybe'")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            return connection.execute(statement.encode(), [self.job] if "%s" in statement else []).fetchall()


@pytest.fixture
def world(postgres: PostgresService, tmp_path: Path) -> Iterator[World]:
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    with simulated(latency_ms=50) as endpoint:
        made = World(tmp_path, url, endpoint)
        made.write()
        yield made


def test_a_task_that_fails_after_30_rows_is_run_again_and_calls_nobody_twice(world: World) -> None:
    process = world.start(trouble=True)
    line = world.end(process)
    assert (world.folder / "failed").exists(), line
    assert (line["exit"], line["read"], line["published"], line["answered"]) == (0, ROWS, ROWS, ROWS), line
    stats = world.endpoint.stats(ids=True)
    repeated = {id_: entry["calls"] for id_, entry in stats["ids"].items() if entry["calls"] > 1}
    print(f"calls {stats['calls']}, repeated {len(repeated)}, maybe {len(world.maybe())}, {line['seconds']} s")
    assert repeated == {}
    assert world.maybe() == []


def test_a_python_worker_that_is_killed_costs_at_most_its_calls_in_flight_and_each_is_on_record(world: World) -> None:
    process = world.start(trouble=False)
    wait_for(lambda: world.ended() >= 100, 120)
    (name,) = world.sql("SELECT worker FROM headrace.workers ORDER BY open DESC LIMIT 1")[0]
    os.kill(int(name.split("-")[-2]), signal.SIGKILL)
    line = world.end(process)
    assert (line["exit"], line["published"], line["answered"]) == (0, ROWS, ROWS), line
    stats, lost = world.endpoint.stats(ids=True), world.maybe()
    extra = stats["calls"] - ROWS
    print(f"calls {stats['calls']}, extra {extra}, maybe {len(lost)}, {line['seconds']} s")
    # Answers that were not durable yet are as lost as the calls in flight.
    assert extra <= 2 * IN_FLIGHT
    assert {outcome for _, outcome in lost} == {"lost"}
    repeated = {id_ for id_, entry in stats["ids"].items() if entry["calls"] > 1}
    assert repeated <= {id_ for id_, _ in lost}
    assert line["in_doubt"] == len(lost)
