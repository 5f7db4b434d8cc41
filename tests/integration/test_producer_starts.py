"""Starts of the producer as a program of its own: from anywhere, stopped, failing, with a task that runs twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from deploy.spark_zip import build
from tests.services import KafkaService
from tests.spark.producing import write_job
from tests.spark.reading_topics import SLOW, make_topic, read_all, wait_until_it_holds_some

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
# Publishes 1,000 rows in batches of 200 from one task, which fails once, after 600 rows have reached the broker.
FLAKY = """
import sys, time
from contextlib import contextmanager
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as fn
from producer import columns, writer
from schemas.settings import KafkaSettings

servers, topic, tally = sys.argv[1:]
spark = (SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.log.level", "FATAL").config("spark.sql.execution.arrow.maxRecordsPerBatch", "200").getOrCreate())

@contextmanager
def flaky():
    batches = []
    def look_up(ids, fingerprints):
        batches.append(ids)
        if len(batches) == 4 and TaskContext.get().attemptNumber() == 0:
            time.sleep(2)
            raise OSError("the executor is gone")
        return set()
    yield look_up

text = fn.concat(fn.lit("r-"), fn.col("id").cast("string"))
rows = spark.range(0, 1000, 1, 1).select(
    text.alias(columns.ID), text.alias(columns.FINGERPRINT), text.alias(columns.VALUE))
writer.publish(rows, writer.Publication(KafkaSettings(bootstrap_servers=servers), topic, Path(tally), flaky))
print(writer.read_tally(Path(tally)))
"""


def submit(folder: Path, environ: dict[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    """Run `spark-submit` with a Python that knows installed packages but not this source tree."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    found = {
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PYSPARK_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    found |= {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME") if name in os.environ}
    program = shutil.which("spark-submit", path=Path(sys.executable).parent)
    assert program
    command = [program, "--master", "local[2]", "--conf", "spark.ui.enabled=false", *argv]
    return subprocess.run(
        command, cwd=folder, env=found | environ, capture_output=True, text=True, check=False, timeout=240
    )


def write(folder: Path, columns: dict[str, list[Any]]) -> None:
    (folder / "rows").mkdir()
    table = pa.table(columns)
    half = (len(table) + 1) // 2
    for number, part in enumerate((table.slice(0, half), table.slice(half))):
        parquet.write_table(part, folder / f"rows/{number}.parquet")


def test_a_task_that_runs_twice_repeats_messages_and_counts_once(kafka: KafkaService, tmp_path: Path) -> None:
    topic = f"headrace.prompts.flaky-{uuid.uuid4().hex[:8]}"
    make_topic(kafka.bootstrap_servers, topic)
    command = [sys.executable, "-c", FLAKY, kafka.bootstrap_servers, topic, str(tmp_path / "tally.json")]
    environ = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=240)

    assert ended.returncode == 0, ended.stderr
    assert "Delivered(rows=1000, skipped=0, acked=1000" in ended.stdout
    held = Counter((message.key() or b"").decode() for message in read_all(kafka.bootstrap_servers, topic))
    assert sum(held.values()) == 1600
    assert len(held) == 1000


def test_it_starts_from_any_folder_with_the_zip_alone(tmp_path: Path, kafka: KafkaService, database: str) -> None:
    write(tmp_path, {"id": [f"r-{n}" for n in range(50)], "text": [f"text {n}" for n in range(50)]})
    job = f"zip-{uuid.uuid4().hex[:8]}"
    write_job(tmp_path, job=job)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(ROOT / "producer/job.py", elsewhere / "job.py")
    build(ROOT, elsewhere / "spark.zip")
    environ = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers, "DATABASE_URL": database}

    ended = submit(elsewhere, environ, "--py-files", "spark.zip", "job.py", "--job", "../job.yaml", "--no-canary")

    line = json.loads(ended.stdout.splitlines()[-1])
    assert ended.returncode == 0, ended.stderr
    assert (line["job"], line["read"], line["published"], line["exit"]) == (job, 50, 50, 0)
    assert len(read_all(kafka.bootstrap_servers, f"headrace.prompts.{job}")) == 50
    assert "\tat " not in ended.stderr


def test_a_run_that_is_stopped_says_so_and_ends(tmp_path: Path, kafka: KafkaService, database: str) -> None:
    job = f"stopped-{uuid.uuid4().hex[:8]}"
    write(tmp_path, {"id": list(range(100_000)), "text": [f"{n}{' text' * 50}" for n in range(100_000)]})
    make_topic(kafka.bootstrap_servers, f"headrace.prompts.{job}")
    environ = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "DATABASE_URL": database,
        "KAFKA_PRODUCER_CONF": SLOW,
    }
    command = [sys.executable, str(ROOT / "producer/job.py"), "--no-canary"]
    command += ["--job", str(write_job(tmp_path, job=job))]
    started = subprocess.Popen(command, env=os.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    wait_until_it_holds_some(kafka.bootstrap_servers, f"headrace.prompts.{job}")
    started.terminate()
    out, err = started.communicate(timeout=60)

    line = json.loads(out.decode().splitlines()[-1])
    assert (started.returncode, line["exit"]) == (3, 3), err
    assert line["error"].startswith("stopped by SIGTERM")
    assert b"Traceback" not in err


def test_a_failing_run_tells_its_exit_code_and_one_line(tmp_path: Path, kafka: KafkaService, database: str) -> None:
    write(tmp_path, {"id": ["1", "2"], "text": ["a", "b"]})
    write_job(tmp_path, source={"format": "parquet", "path": "rows", "where": "CAST(text AS INT) > 1"})
    build(ROOT, tmp_path / "spark.zip")
    environ = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers, "DATABASE_URL": database}
    script = str(ROOT / "producer/job.py")

    ended = submit(tmp_path, environ, "--py-files", "spark.zip", script, "--job", "job.yaml", "--no-canary")

    line = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.returncode, line["exit"]) == (1, 1), ended.stderr
    assert line["error"].startswith("Spark ended the run with CAST_INVALID_INPUT")
    # spark-submit sends the script's standard error to its own standard output.
    told = ended.stdout + ended.stderr
    assert told.count("producer: ") == 1
    assert "\tat " not in told
    assert "Traceback" not in told
