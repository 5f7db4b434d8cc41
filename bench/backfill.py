"""Rows a second of the backfill, beside plain Spark that joins the same rows from Parquet.

`python -m bench.backfill` uses DATABASE_URL if it is set, else a server of its own. Each figure is the median of
the rounds; both sides of a ratio are measured in the same round, one after the other, and write the same table.
`by_request`: answers go by what each row asks, as with `dedup`, though no two rows ask the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import yaml
from psycopg import sql
from pydantic import SecretStr
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from backfill import reader
from backfill.columns import CURRENT, KEY
from backfill.counts import Counts
from backfill.output_type import output_type
from backfill.results import columns
from backfill.run import backfill
from backfill.settings import JobFile, read_job
from backfill.source import database_session
from backfill.transform import answers
from control.migrate import migrate
from deploy.local.stack import throwaway_postgres
from schemas.settings import DatabaseSettings
from tests.spark_session import LONG, open_session

JOB = "bench"
LABEL = {
    "type": "object",
    "properties": {"label": {"type": "string"}, "score": {"type": "number"}, "why": {"type": "string"}},
}
# One answer of about 1 KB that does not compress, as text and as parsed JSON.
FILL = """
INSERT INTO headrace.results (job, id, run, fingerprint, status, result, result_json, finish_reason, prompt_tokens,
    completion_tokens, model, endpoint, cost_usd, completed_at)
SELECT 'bench', 'r-' || n, 'run', md5(n::text) || md5(n::text), 'succeeded', answer::text, answer, 'stop', 300, 200,
    'small', 'http://vllm/v1', 0.00012345, now()
FROM generate_series(1, {rows}) n, LATERAL (SELECT jsonb_build_object('label', 'good', 'score', n * 0.5, 'why',
    (SELECT string_agg(md5(n::text || k), '') FROM generate_series(1, 30) k)) AS answer) made
"""


@dataclass(frozen=True)
class Bench:
    """A source table, its results in Postgres, and the same results as Parquet."""

    spark: SparkSession
    folder: Path
    url: SecretStr
    rows: int

    def job(self, typed: bool, dedup: bool = False) -> JobFile:
        """The job file, with a JSON schema or without."""
        job: dict[str, Any] = {
            "job": JOB,
            "dedup": dedup,
            "source": {"format": "parquet", "path": "source"},
            "id": "id",
            "prompt": {"template": "{text}"},
            "target": {"format": "parquet", "path": "target"},
        }
        path = self.folder / "job.yaml"
        path.write_text(yaml.safe_dump(job | ({"output": {"json_schema": "label.json"}} if typed else {})))
        return read_job(path)

    def fill(self) -> None:
        """Make source and results, in Postgres and in Parquet."""
        (self.folder / "label.json").write_text(json.dumps(LABEL))
        fill_results(self.url, self.rows)
        text = fn.concat(*(fn.md5(fn.concat("id", fn.lit(f"-{part}"))) for part in range(30)))
        ids = self.spark.range(1, self.rows + 1).select(fn.concat(fn.lit("r-"), "id").alias("id"))
        ids.withColumn("text", text).repartition(4).write.parquet(str(self.folder / "source"))
        number = fn.expr("substr(id, 3)")
        asks = ids.select(
            "id", fn.concat(fn.md5(number), fn.md5(number)).alias("fingerprint"), fn.lit(True).alias("asked")
        )
        asks.write.parquet(str(self.folder / "target_requests" / "run=1"))
        with database_session(self.url, JOB, "bench") as held:
            results = reader.read(self.spark, held.snapshot, columns(with_json=True))
            results.write.parquet(str(self.folder / "results"))

    def plain(self, typed: bool) -> None:
        """What anybody writes whose results are Parquet already: read, join, write the same columns."""
        results = self.spark.read.parquet(str(self.folder / "results")).withColumn(CURRENT, fn.lit(False))
        answered = answers(results, output_type(LABEL) if typed else None, "v").withColumnRenamed(KEY, "id")
        joined = self.spark.read.parquet(str(self.folder / "source")).join(answered.drop(CURRENT), "id", "left")
        joined.write.mode("overwrite").parquet(str(self.folder / "plain"))

    def ours(self, typed: bool) -> None:
        """One backfill into a target that is not there yet."""
        counts = Counts()
        with database_session(self.url, JOB, "bench") as held:
            backfill(self.spark, self.job(typed), held, counts)
        assert counts.joined == self.rows, counts

    def by_request(self, typed: bool) -> None:
        """The same, with answers that go by request."""
        counts = Counts()
        with database_session(self.url, JOB, "bench") as held:
            backfill(self.spark, self.job(typed, dedup=True), held, counts)
        assert counts.joined == self.rows, counts

    def again(self, typed: bool) -> None:
        """A backfill that finds nothing new."""
        counts = Counts()
        with database_session(self.url, JOB, "bench") as held:
            backfill(self.spark, self.job(typed), held, counts)
        assert counts.written == 0, counts


def fill_results(url: SecretStr, rows: int) -> None:
    """Store so many results."""
    with psycopg.connect(url.get_secret_value(), autocommit=True) as database:
        database.execute(FILL.format(rows=rows).encode())
        database.execute("VACUUM ANALYZE headrace.results")


def main() -> None:
    """Measure, and print one JSON line a round and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = new_database(stack)
        spark = open_session([], folder, LONG)
        stack.callback(spark.stop)
        bench = Bench(spark, folder, url, arguments.rows)
        bench.fill()
        # The first round warms the JVM.
        rounds = [_round(bench) for _ in range(arguments.rounds + 1)][1:]
    median = {name: round(statistics.median(found[name] for found in rounds), 2) for name in rounds[0]}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"median": median, "rows": arguments.rows, "rounds": len(rounds), "driver_python_mb": peak}))


def new_database(stack: ExitStack) -> SecretStr:
    """Make a database with our tables, which goes when the stack does."""
    server = os.environ.get("DATABASE_URL") or stack.enter_context(throwaway_postgres()).url
    name = f"bench_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = SecretStr(f"{server.rpartition('/')[0]}/{name}")
    migrate(DatabaseSettings(url=url))

    def drop() -> None:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    stack.callback(drop)
    return url


def _round(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    for typed, name in ((False, "text"), (True, "typed")):
        shutil.rmtree(bench.folder / "target", ignore_errors=True)
        plain, ours = _rate(bench, bench.plain, typed), _rate(bench, bench.ours, typed)
        found |= {f"{name}_rows_s": ours, f"{name}_plain_rows_s": plain, f"{name}_ratio": ours / plain}
        shutil.rmtree(bench.folder / "target", ignore_errors=True)
        found[f"{name}_by_request_ratio"] = _rate(bench, bench.by_request, typed) / ours
    found["nothing_new_rows_s"] = _rate(bench, bench.again, True)
    print(json.dumps({name: round(value, 2) for name, value in found.items()}), flush=True)
    return found


def _rate(bench: Bench, work: Callable[[bool], None], typed: bool) -> float:
    started = time.perf_counter()
    work(typed)
    return bench.rows / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
