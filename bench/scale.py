"""The same work on ten times the rows: `python -m bench.scale [--rows 100000 1000000] [--only NAME]`.

Producer (publish without workers), backfill (a target that is not there yet) and worker: time or CPU a row at the
larger number against the smaller, and memory. The sides are measured in one run, after a round that warms the JVM;
servers are its own, or those of KAFKA_BOOTSTRAP_SERVERS and DATABASE_URL for the Spark jobs.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import yaml
from pyspark import SparkContext
from pyspark.sql import SparkSession

from backfill import settings as backfill_settings
from backfill.counts import Counts
from backfill.run import backfill
from backfill.source import database_session
from bench.producer import services, write_rows
from bench.rig import Figure, peak_megabytes, rig
from bench.worker import one_run
from producer import pipeline
from producer.arguments import Arguments
from producer.run import Run
from producer.settings import read_job, read_settings
from schemas.settings import DatabaseSettings
from tests.spark_session import open_session

_IN_FLIGHT = 256
# An answer to each request that was published, as the fleet would leave it.
_STORE = """
INSERT INTO headrace.results (job, id, run, fingerprint, status, result, finish_reason, prompt_tokens,
    completion_tokens, model, endpoint, cost_usd, completed_at)
SELECT %(job)s, id, %(run)s, fingerprint, 'succeeded', repeat(md5(id), 4), 'stop', 300, 40, 'small', 'http://vllm/v1',
    0.00012345, now()
FROM asked
"""


@dataclass(frozen=True)
class Side:
    """Seconds of both Spark jobs over one table, and memory after them in MB."""

    rows: int
    publish_s: float
    backfill_s: float
    java_mb: float
    python_mb: float


def spark_jobs(sizes: Sequence[int]) -> Iterator[Figure]:
    """Publish and join tables of several sizes, the smallest first."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environ = services(stack)
        spark = open_session([], folder)
        stack.callback(spark.stop)
        sides = [_side(spark, folder / f"{number}-{rows}", environ, rows) for number, rows in enumerate(_warm(sizes))]
    small, large = sides[1], sides[-1]
    yield from _ratios(small, large)


def _warm(sizes: Sequence[int]) -> list[int]:
    return [min(sizes), *sorted(sizes)]


def _ratios(small: Side, large: Side) -> Iterator[Figure]:
    pairs = (("publish", small.publish_s, large.publish_s), ("backfill", small.backfill_s, large.backfill_s))
    for name, few, many in pairs:
        ours, reference = 1e6 * many / large.rows, 1e6 * few / small.rows
        label = f"14 {name}, a row of {large.rows:,} against {small.rows:,}"
        yield Figure(label, ours, "ratio <= 1.30", ours <= 1.3 * reference, reference, "us")
    for name, before, after in (
        ("Java", small.java_mb, large.java_mb),
        ("driver's Python", small.python_mb, large.python_mb),
    ):
        yield Figure(f"14 most memory so far, {name}", after, "ratio <= 1.30", after <= 1.3 * before, before, "MB")


def _side(spark: SparkSession, folder: Path, environ: dict[str, str], rows: int) -> Side:
    folder.mkdir()
    write_rows(spark, folder, rows)
    path = _job(folder)
    began = time.perf_counter()
    run = Run(read_job(path), read_settings(environ), Arguments(path, no_canary=True))
    pipeline.publish(spark, run, pipeline.reach(run))
    publish_s = time.perf_counter() - began
    assert run.counts.published == rows, run.counts
    _answer(run, folder, environ)
    began = time.perf_counter()
    counts, file = Counts(), backfill_settings.read_job(path)
    with database_session(DatabaseSettings.read(environ).url, file.job.job, file.target_name) as held:
        backfill(spark, file, held, counts)
    backfill_s = time.perf_counter() - began
    assert counts.joined == rows, counts
    python_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    side = Side(rows, publish_s, backfill_s, peak_megabytes(_java()), python_mb)
    print(side, flush=True)
    return side


def _job(folder: Path) -> Path:
    content = {
        "job": f"scale-{folder.name}",
        "source": {"format": "parquet", "path": "rows"},
        "id": "id",
        "prompt": {"template": "{text}"},
        "target": {"format": "parquet", "path": "labelled"},
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def _answer(run: Run, folder: Path, environ: dict[str, str]) -> None:
    """Store a result for each request of the run, without a worker."""
    with psycopg.connect(environ["DATABASE_URL"], autocommit=True) as database:
        database.execute("CREATE TEMP TABLE asked (id text, fingerprint text)")
        with database.cursor().copy("COPY asked FROM STDIN") as copy:
            for path in (folder / "labelled_requests").rglob("*.parquet"):
                # In small batches: the memory of this process is one of the figures.
                for batch in pq.ParquetFile(path).iter_batches(10_000, columns=["id", "fingerprint"]):
                    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        copy.write_row(row)
        database.execute(_STORE, {"job": run.file.job.job, "run": run.id})
        database.execute("VACUUM ANALYZE headrace.results")


def _java() -> int:
    """The process of the JVM, which Python has started."""
    gateway = SparkContext._gateway
    assert gateway is not None
    process: int = gateway.proc.pid
    return process


def worker(sizes: Sequence[int]) -> Iterator[Figure]:
    """One worker over as many prompts of 1 KB, at 256 in flight and 100 ms."""
    with rig() as running:
        found = [one_run(running, _IN_FLIGHT, rows) for rows in sizes]
    small, large = found[0], found[-1]
    label = f"14 worker, CPU a prompt of {sizes[-1]:,} against {sizes[0]:,}"
    cpu = large.cpu_ms_a_prompt
    yield Figure(label, cpu, "ratio <= 1.05", cpu <= 1.05 * small.cpu_ms_a_prompt, small.cpu_ms_a_prompt, "ms")
    peak = large.peak_mb
    yield Figure("14 worker, most memory", peak, "ratio <= 1.10", peak <= 1.1 * small.peak_mb, small.peak_mb, "MB")


def main() -> int:
    """Measure, and end with 1 if a figure is short."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--prompts", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--only", choices=["spark", "worker"])
    arguments = parser.parse_args()
    print(f"{'figure':58} {'ours':>10} {'reference':>10} {'ratio':>6}  {'goal':24}")
    short = False
    for name, figures in (("spark", spark_jobs(arguments.rows)), ("worker", worker(arguments.prompts))):
        if arguments.only in (None, name):
            for figure in figures:
                print(figure, flush=True)
                short |= not figure.met
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
