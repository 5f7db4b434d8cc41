"""SIGTERM at `spark-submit` in the middle of a run: the last line, the documented code, nothing half done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from tests.fleet import ROOT, wait_for
from tests.services import KafkaService, PostgresService
from tests.spark.backfilling import migrated
from tests.spark.producing import write_job

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

SUBMIT = Path(sys.executable).parent / "spark-submit"
QUICK = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
ROWS = 20_000
Starting = AbstractContextManager[subprocess.Popen[str]]
_LOCK = "LOCK TABLE headrace.results IN ACCESS EXCLUSIVE MODE"
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
_OF_TASKS = " AND (query LIKE 'COPY %' OR query LIKE '%unnest(%')"


@contextmanager
def started(program: str, job: Path, *options: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """Start a job as a scheduler would; whatever happens, nothing of it stays."""
    with (job.parent / "out").open("w") as out, (job.parent / "err").open("w") as err:
        process = subprocess.Popen(
            [str(SUBMIT), *QUICK, str(ROOT / program / "job.py"), "--job", str(job), *options],
            cwd="/",
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environ},
            stdout=out,
            stderr=err,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def write(folder: Path, **changes: Any) -> Path:
    ids = [f"r-{n}" for n in range(ROWS)]
    (folder / "rows").mkdir()
    parquet.write_table(pa.table({"id": ids, "text": ids}), folder / "rows/0.parquet")
    return write_job(folder, job=f"job-{uuid.uuid4().hex[:8]}", **changes)


def said(folder: Path) -> str:
    return (folder / "out").read_text() + (folder / "err").read_text()


@contextmanager
def held_up(url: str, folder: Path, start: Starting) -> Iterator[subprocess.Popen[str]]:
    """Start a job of which all tasks wait: the driver's look at the results is let through, theirs are not.

    What it says goes to `folder`.

    Locks are given in the order in which they are asked for.
    """
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        first.execute(_LOCK)
        with start as process:
            wait_for(lambda: waiting(url) == 1, 60, lambda: said(folder))
            asking = threading.Thread(target=locked, args=[second])
            asking.start()
            wait_for(lambda: waiting(url) == 2, 60)
            first.commit()
            wait_for(lambda: waiting(url, of_tasks=True), 120, lambda: said(folder))
            yield process
        second.cancel_safe()
        asking.join()


def locked(connection: psycopg.Connection) -> None:
    with suppress(psycopg.errors.QueryCanceled):
        connection.execute(_LOCK)


def waiting(url: str, of_tasks: bool = False) -> int:
    with psycopg.connect(url) as connection:
        question = _WAITING + (_OF_TASKS if of_tasks else "")
        row = connection.execute(question.encode()).fetchone()
        return int(row[0]) if row else 0


def stopped(process: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    """Stop the JVM, which is what `spark-submit` has become; give the last line."""
    process.send_signal(signal.SIGTERM)
    code = process.wait(60)
    line: dict[str, Any] = json.loads((folder / "out").read_text().strip().splitlines()[-1])
    assert line["exit"] == code, said(folder)
    assert "Traceback" not in said(folder)
    return line


def test_a_backfill_that_is_stopped_ends_as_stopped_and_leaves_no_target(
    postgres: PostgresService, tmp_path: Path
) -> None:
    url, job = migrated(postgres), write(tmp_path)
    with held_up(url, tmp_path, started("backfill", job, DATABASE_URL=url)) as process:
        line = stopped(process, tmp_path)
    assert (line["exit"], line["written"]) == (3, 0)
    assert "stopped by SIGTERM" in line["error"]
    assert not (tmp_path / "labelled").exists()


def test_a_producer_that_is_stopped_ends_as_stopped_and_counts_what_was_acknowledged(
    postgres: PostgresService, kafka: KafkaService, tmp_path: Path
) -> None:
    url, job = migrated(postgres), write(tmp_path)
    name = yaml.safe_load(job.read_text())["job"]
    finished = "INSERT INTO headrace.results (job, id, status, completed_at) VALUES (%s, 'old', 'succeeded', now())"
    with psycopg.connect(url) as database:
        database.execute(finished, [name])
    places = {"DATABASE_URL": url, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    with held_up(url, tmp_path, started("producer", job, "--no-canary", **places)) as process:
        line = stopped(process, tmp_path)
    assert (line["exit"], line["job"], line["published"]) == (3, name, 0)
    assert "stopped by SIGTERM" in line["error"]
