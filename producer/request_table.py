"""The table of requests beside the target, for the backfill and for the next run: written before anything is sent."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from producer.errors import RunFailedError
from producer.folders import Folders
from producer.run import Run
from schemas import requests_table as table

# Some 300 MB of a file: an id and a fingerprint that does not compress.
_ROWS_PER_FILE = 4_000_000
_ROWS_PER_TASK = 50_000


def before(spark: SparkSession, run: Run) -> DataFrame | None:
    """Open what the last complete run said, or None if there was none."""
    if not (runs := _complete(spark, run)):
        return None
    rows = spark.read.parquet(f"{_address(run)}/{runs[-1]}")
    return rows.select(table.ID, table.FINGERPRINT, table.ASKED)


def write(spark: SparkSession, run: Run, requests: DataFrame) -> None:
    """Write what this run says, and delete what nobody reads any more.

    A run with `--limit` has seen a part of the source: of the other ids it repeats what was said before.
    """
    requests = requests.select(table.ID, table.FINGERPRINT, table.ASKED)
    known = before(spark, run) if run.arguments.limit else None
    if known is not None:
        requests = requests.unionByName(known.join(requests, table.ID, "left_anti"))
    folder = table.run_folder(run.id)
    _in_few_files(requests).write.mode("overwrite").parquet(f"{_address(run)}/{folder}")
    runs = _complete(spark, run)
    if folder not in runs:
        raise RunFailedError(
            f"Spark left no _SUCCESS in {_address(run)}/{folder}: "
            "leave spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs on"
        )
    _delete(spark, run, runs[: -table.KEPT_RUNS])


def _in_few_files(requests: DataFrame) -> DataFrame:
    """Put tasks together instead of shuffling rows: a file for each core of a small machine, or of a useful size."""
    rows = requests.count()
    return requests.coalesce(max(1, min(8, rows // _ROWS_PER_TASK), rows // _ROWS_PER_FILE))


def forget(spark: SparkSession, run: Run) -> None:
    """Delete the table: without `dedup` each row has an answer of its own."""
    _delete(spark, run, _complete(spark, run))


def _address(run: Run) -> str:
    return table.address(run.file.locate(run.file.job.target.base))


def _complete(spark: SparkSession, run: Run) -> list[str]:
    return table.complete_runs(Folders(spark, _address(run)).files(_address(run)))


def _delete(spark: SparkSession, run: Run, runs: list[str]) -> None:
    folders = Folders(spark, _address(run))
    for name in runs:
        folders.delete(f"{_address(run)}/{name}")
