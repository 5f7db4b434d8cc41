"""Both jobs on a cluster whose executors have the zip and some wheels, and direct mode under Spark's speculation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from control.migrate import migrate
from deploy import spark_zip
from schemas.message import Prompt, decode
from schemas.settings import DatabaseSettings
from tests.fleet import ROOT
from tests.services import KafkaService, PostgresService
from tests.simulated import simulated
from tests.spark.bare_python import bare_python, wheels_named
from tests.spark.producing import write_job
from tests.spark.reading_topics import read_all
from tests.spark.standalone import Cluster, bare_environment, standalone

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

ROWS, SLOW = 200, 48


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def database(postgres: PostgresService) -> str:
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    return url


def write(folder: Path, parts: list[list[str]]) -> None:
    (folder / "rows").mkdir()
    for number, ids in enumerate(parts):
        table = pa.table({"id": ids, "text": [f"What of {id_}?" for id_ in ids]})
        pq.write_table(table, folder / f"rows/{number}.parquet")


def last_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    said = done.stdout + done.stderr
    lines = [text for text in done.stdout.splitlines() if text.startswith("{")]
    assert lines, said
    line: dict[str, Any] = json.loads(lines[-1])
    assert line["exit"] == done.returncode, said
    return line


def sql(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    """What Spark itself recorded of an application."""
    lines = [line for path in folder.rglob("events_*") for line in path.read_text().split("\n") if line]
    return [event for event in map(json.loads, lines) if event["Event"] == kind]


def test_speculative_copies_of_a_slow_task_call_nobody_twice(cluster: Cluster, database: str, tmp_path: Path) -> None:
    write(tmp_path, [[f"r-{n}" for n in range(ROWS)], [f"slow-{n}" for n in range(SLOW)]])
    job = f"job-{uuid.uuid4().hex[:8]}"
    path = write_job(tmp_path, job=job, mode="direct", dedup=False, incremental=False)
    (tmp_path / "events").mkdir()
    with simulated([{"match": {"id_prefix": "slow-"}, "latency_ms": 2000}], latency_ms=20) as endpoint:
        conf = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{tmp_path}/events",
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
            "spark.executorEnv.LLM_BASE_URL": endpoint.base_url,
            "spark.executorEnv.LLM_MODEL": "simulated",
            "spark.executorEnv.MAX_IN_FLIGHT": "8",
            "spark.executorEnv.LOG_LEVEL": "WARNING",
        }
        environ = {"DATABASE_URL": database, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
        environ |= {"PYSPARK_PYTHON": sys.executable}
        line = last_line(
            cluster.submit([f"{ROOT}/producer/job.py", "--job", str(path), "--no-canary"], environ, conf)
        )
        stats = endpoint.stats(ids=True)
    started = events(tmp_path / "events", "SparkListenerTaskStart")
    # The rows are answered in the last stage; those before it only count.
    last = max(event["Stage ID"] for event in started)
    tasks = [event["Task Info"] for event in started if event["Stage ID"] == last]
    copies = [task for task in tasks if task["Speculative"]]
    copied = [task for task in tasks if task["Index"] in {copy["Index"] for copy in copies}]
    maybe = sql(database, "SELECT id, outcome FROM headrace.attempts WHERE job = %s AND billed = 'maybe'", job)
    hosts = [(task["Index"], task["Host"], task["Speculative"]) for task in tasks]
    print(f"calls {stats['calls']}, maybe {len(maybe)}, {line['seconds']} s, tasks {hosts}")
    assert copies, f"Spark started no copy: {hosts}"
    assert len({task["Host"] for task in copied}) == 2
    assert (line["exit"], line["published"], line["answered"]) == (0, ROWS + SLOW, ROWS + SLOW)
    assert {id_: entry["calls"] for id_, entry in stats["ids"].items() if entry["calls"] > 1} == {}
    assert maybe == []


def answer_all(url: str, servers: str, job: str) -> None:
    """Stand in for the fleet: an answer to every message of the topic."""
    prompts = [
        decode(message.key(), message.value() or b"") for message in read_all(servers, f"headrace.prompts.{job}")
    ]
    for prompt in prompts:
        assert isinstance(prompt, Prompt)
        sql(
            url,
            "INSERT INTO headrace.results (job, id, run, fingerprint, status, result, completed_at) "
            "VALUES (%s, %s, %s, %s, 'succeeded', %s, now())",
            *(job, prompt.id, prompt.run, prompt.fingerprint, f"answer to {prompt.id}"),
        )


def test_the_zip_and_the_wheels_that_the_docs_name_are_all_that_driver_and_executors_need(
    cluster: Cluster, kafka: KafkaService, database: str, tmp_path: Path
) -> None:
    python = str(bare_python(tmp_path / "bare", wheels_named("both jobs")))
    spark_zip.build(ROOT, tmp_path / "dist/headrace-spark.zip")
    for name in ("producer", "backfill"):
        (tmp_path / f"start-{name}").mkdir()
        shutil.copy(ROOT / name / "job.py", tmp_path / f"start-{name}/job.py")
    search = "import importlib.util as u; print([n for n in ('producer', 'backfill', 'schemas') if u.find_spec(n)])"
    seen = subprocess.check_output([python, "-c", search], cwd="/", env=bare_environment(), text=True)
    assert seen == "[]\n", "the executors' Python finds the package without the zip"

    job = f"job-{uuid.uuid4().hex[:8]}"
    write(tmp_path, [[f"r-{n}" for n in range(part, ROWS, 2)] for part in range(2)])
    path = write_job(tmp_path, job=job, dedup=False, incremental=False)
    environ = {"DATABASE_URL": database, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers, "PYSPARK_PYTHON": python}
    zipped = ["--py-files", str(tmp_path / "dist/headrace-spark.zip")]
    command = [*zipped, str(tmp_path / "start-producer/job.py"), "--job", str(path), "--no-canary"]
    line = last_line(cluster.submit(command, environ))
    assert (line["exit"], line["read"], line["published"]) == (0, ROWS, ROWS), line
    answer_all(database, kafka.bootstrap_servers, job)

    command = [*zipped, str(tmp_path / "start-backfill/job.py"), "--job", str(path)]
    line = last_line(cluster.submit(command, environ))
    assert (line["exit"], line["rows"], line["joined"], line["written"]) == (0, ROWS, ROWS, ROWS), line
    table = pq.read_table(tmp_path / "labelled", columns=["id", "llm_result"])
    found = dict(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    assert found == {f"r-{n}": f"answer to r-{n}" for n in range(ROWS)}

    unzipped = {**environ, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [str(ROOT / "producer/job.py"), "--job", str(path), "--no-canary", "--retry-failed"]
    line = last_line(cluster.submit(command, unzipped))
    assert (line["exit"], "lacks the module producer" in line["error"]) == (1, True), line
