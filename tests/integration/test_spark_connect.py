"""Both jobs on a Spark Connect server: no JVM at the client, none of our code on the server, the same ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet
from pyspark.sql import SparkSession

from deploy.local import ports
from producer import connect
from producer.pipeline import publish, reach
from schemas.message import Prompt, decode
from schemas.spark_jars import DELTA
from tests.fleet import ROOT, wait_for
from tests.services import KafkaService, PostgresService
from tests.spark.backfilling import migrated
from tests.spark.bare_python import bare_python, wheels_named
from tests.spark.producing import make_run, write_job
from tests.spark.reading_topics import read_all
from tests.spark.standalone import SPARK_HOME, bare_environment
from tests.spark_session import delta_spark, spark, spark_packages

__all__ = ["delta_spark", "spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 300
# A row of its own, one without an id, and two that ask the same.
TEXTS = [f"What of {n}?" for n in range(ROWS)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without any jars of a format."""
    with serving(tmp_path_factory.mktemp("connect")) as remote:
        yield remote


@contextmanager
def serving(folder: Path, *options: str, **more: str) -> Iterator[str]:
    """Run a server whose Python has the wheels that docs/cluster.md names, and nothing of ours."""
    (port,) = ports.choose(["connect"], {}).values()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
    } | more
    settled = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    command = [str(SPARK_HOME / "bin/spark-submit"), "--master", "local[2]", *settled, *options]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environ = {**bare_environment(), "SPARK_DAEMON_MEMORY": "1g"}
    environ |= {"PYSPARK_PYTHON": str(bare_python(folder / "bare", wheels_named("both jobs")))}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
        try:
            wait_for(lambda: answers(port), 240, lambda: (folder / "log").read_text()[-3000:])
            yield f"sc://127.0.0.1:{port}/;user_id=secret-user"
        finally:
            process.terminate()
            process.wait(30)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def write(folder: Path) -> Path:
    (folder / "rows").mkdir(parents=True)
    for part in range(2):
        ids = [None if n == 7 else f"r-{n}" for n in range(part, ROWS, 2)]
        texts = [TEXTS[0] if n == 5 else TEXTS[n] for n in range(part, ROWS, 2)]
        parquet.write_table(pa.table({"id": ids, "text": texts}), folder / f"rows/{part}.parquet")
    return write_job(folder, job=f"job-{uuid.uuid4().hex[:8]}")


def environment(remote: str) -> dict[str, str]:
    """What a job is started with by Python alone, where no JVM could be started."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "LLM_"))}
    return clean | {"PYTHONPATH": str(ROOT), "SPARK_HOME": "/nowhere", "SPARK_REMOTE": remote}


def start(program: str, job: Path, remote: str, *options: str, **environ: str) -> dict[str, Any]:
    """Run a job to its end; gives its last line."""
    command = [sys.executable, str(ROOT / program / "job.py"), "--job", str(job), *options]
    settled = environment(remote) | environ
    done = subprocess.run(command, cwd="/", env=settled, capture_output=True, text=True, timeout=400, check=False)
    said = done.stdout + done.stderr
    assert "secret-user" not in said
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    assert line.get("exit") == done.returncode, said
    return line


def asked(servers: str, job: Path) -> dict[str, tuple[Any, ...]]:
    """What each message of the topic asks."""
    name, found = yaml.safe_load(job.read_text())["job"], {}
    for message in read_all(servers, f"headrace.prompts.{name}"):
        prompt = decode(message.key(), message.value() or b"")
        assert isinstance(prompt, Prompt)
        found[prompt.id] = (prompt.fingerprint, prompt.messages)
    return found


def test_the_producer_makes_the_same_messages_as_without_connect(
    server: str, spark: SparkSession, kafka: KafkaService, postgres: PostgresService, tmp_path: Path
) -> None:
    url = migrated(postgres)
    places = {"DATABASE_URL": url, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    here, there = write(tmp_path / "classic"), write(tmp_path / "connect")

    line = start("producer", there, server, "--no-canary", **places)
    assert line["exit"] == 0, line["error"]
    run = make_run(here, places, no_canary=True)
    publish(spark, run, reach(run))
    counts = (run.counts.read, run.counts.published, run.counts.rejected, run.counts.deduplicated)
    assert (
        (line["read"], line["published"], line["rejected"], line["deduplicated"]) == counts == (ROWS, ROWS - 2, 1, 1)
    )
    assert asked(kafka.bootstrap_servers, there) == asked(kafka.bootstrap_servers, here)


def test_what_cannot_work_there_is_told_before_it_starts(
    server: str, delta_spark: SparkSession, postgres: PostgresService, kafka: KafkaService, tmp_path: Path
) -> None:
    places = {"DATABASE_URL": migrated(postgres), "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    write(tmp_path / "a")
    delta = write_job(tmp_path / "a", source={"format": "delta", "path": "rows"})
    assert connect.has_class(delta_spark, DELTA.shows)
    line = start("producer", delta, server, "--no-canary", **places)
    assert (line["exit"], "start the Spark Connect server with --packages io.delta" in line["error"]) == (2, True)
    to_delta = write_job(tmp_path / "a", target={"format": "delta", "path": "labelled"})
    line = start("backfill", to_delta, server, **places)
    assert (line["exit"], "start the Spark Connect server with --packages io.delta" in line["error"]) == (2, True)
    line = start("backfill", to_delta, "sc://127.0.0.1:1", **places)
    assert (line["exit"], "127.0.0.1:1 gave no answer" in line["error"]) == (4, True)
    line = start("backfill", write_job(tmp_path / "a"), server, **places)
    assert (line["exit"], "parquet is not written on Spark Connect" in line["error"]) == (2, True)
    store = write_job(tmp_path / "a", target={"format": "parquet", "path": "nowhere://bucket/labelled"})
    line = start("producer", store, server, "--no-canary", **places)
    assert (line["exit"], "this machine must reach it too" in line["error"]) == (2, True)
    line = start("producer", store, "sc://127.0.0.1:1", "--no-canary", **places)
    assert (line["exit"], "127.0.0.1:1 gave no answer" in line["error"]) == (4, True)
