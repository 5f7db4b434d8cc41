"""Rows a second of the producer, beside a plain Python loop that sends the same bytes: `python -m bench.producer`.

Uses KAFKA_BOOTSTRAP_SERVERS and DATABASE_URL if they are set, else servers of its own. Each figure is the median of
the rounds; all sides of the ratios are measured in the same round, one after the other. `spark` looks for requests
that repeat, as a job does by default, and finds none; `undeduplicated` does not look.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from control.migrate import migrate
from deploy.local.stack import throwaway_kafka, throwaway_postgres
from producer import columns, judging, pipeline, sink
from producer.arguments import Arguments
from producer.run import Run
from producer.settings import read_job, read_settings
from schemas import kafka
from schemas.settings import DatabaseSettings
from tests.spark_session import LONG, open_session


def main() -> None:
    """Measure, and print one JSON line a round and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environ = services(stack)
        spark = open_session([], folder, LONG)
        stack.callback(spark.stop)
        write_rows(spark, folder, arguments.rows)
        rounds = [_round(spark, folder, environ) for _ in range(arguments.rounds + 1)]
    print(json.dumps({"median": _median(rounds[1:]), "rows": arguments.rows, "rounds": arguments.rounds}))


def services(stack: ExitStack) -> dict[str, str]:
    """Give the addresses of the servers, those of the environment or new ones, with our tables."""
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    database = os.environ.get("DATABASE_URL")
    environ = {
        "KAFKA_BOOTSTRAP_SERVERS": servers or stack.enter_context(throwaway_kafka()).bootstrap_servers,
        "DATABASE_URL": database or stack.enter_context(throwaway_postgres()).url,
    }
    migrate(DatabaseSettings.read(environ))
    return environ


def write_rows(spark: SparkSession, folder: Path, rows: int) -> None:
    """Write rows with about 1 KB of text that does not compress away."""
    text = "left(concat_ws(' ', transform(sequence(1, 32), i -> sha2(concat(id, '-', i), 224))), 1000)"
    table = spark.range(0, rows, 1, 8).selectExpr("concat('r-', id) AS id", f"{text} AS text")
    table.write.parquet(str(folder / "rows"))


def _round(spark: SparkSession, folder: Path, environ: dict[str, str]) -> dict[str, float]:
    """Publish with Spark, send the same bytes from Python, and say how fast all were; the first round warms up."""
    job = f"bench-{uuid.uuid4().hex[:8]}"
    rows, undeduplicated = _published(spark, _run(folder, f"{job}-undeduplicated", environ, dedup=False))
    _, deduplicated = _published(spark, _run(folder, job, environ))
    plain = _plain(spark, folder, job, environ)
    _forget(job, environ)
    seconds = {"spark": deduplicated, "undeduplicated": undeduplicated, "plain": plain}
    told = {name: rows / took for name, took in seconds.items()}
    told |= {"ratio": plain / deduplicated, "dedup_ratio": undeduplicated / deduplicated}
    print(json.dumps({name: round(value, 3) for name, value in told.items()}), flush=True)
    return told


def _published(spark: SparkSession, run: Run) -> tuple[int, float]:
    started = time.perf_counter()
    pipeline.publish(spark, run, pipeline.reach(run))
    return run.counts.published, time.perf_counter() - started


def _run(folder: Path, job: str, environ: dict[str, str], dedup: bool = True) -> Run:
    content = {
        "dedup": dedup,
        "job": job,
        "source": {"format": "parquet", "path": "rows"},
        "id": "id",
        "prompt": {"template": "{text}"},
        "target": {"format": "parquet", "path": "labelled"},
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(content))
    return Run(read_job(path), read_settings(environ), Arguments(path, no_canary=True))


def _plain(spark: SparkSession, folder: Path, job: str, environ: dict[str, str]) -> float:
    """Send the same keys and values from one Python loop, bytes in memory, acknowledgements waited for."""
    run = _run(folder, job, environ)
    with judging.judge(spark, run) as judged:
        sent = judged.rows.selectExpr(f"CAST({columns.ID} AS BINARY)", f"CAST({columns.VALUE} AS BINARY)")
        sent.write.mode("overwrite").parquet(str(folder / "sent"))
    pairs = list(zip(*(column.to_pylist() for column in pq.read_table(folder / "sent").columns), strict=True))
    topic = f"headrace.prompts.{job}-plain"
    sink.make_topic(run.settings.kafka, topic, 12)
    producer = Producer(kafka.producer(run.settings.kafka))
    started = time.perf_counter()
    for key, value in pairs:
        _send(producer, topic, key, value)
    assert producer.flush(120) == 0
    return time.perf_counter() - started


def _send(producer: Producer, topic: str, key: bytes, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
            return
        except BufferError:
            producer.poll(0.05)


def _forget(job: str, environ: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": environ["KAFKA_BOOTSTRAP_SERVERS"]})
    gone = admin.delete_topics([f"headrace.prompts.{job}{kind}" for kind in ("", "-plain", "-undeduplicated")])
    for future in gone.values():
        future.result()
    with psycopg.connect(environ["DATABASE_URL"]) as connection:
        connection.execute("DELETE FROM headrace.jobs WHERE starts_with(job, %s)", (job,))


def _median(rounds: list[dict[str, float]]) -> dict[str, Any]:
    return {name: round(statistics.median(r[name] for r in rounds), 3) for name in rounds[0]}


if __name__ == "__main__":
    main()
