"""The table of requests beside the target, for the backfill and for the next run: written before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from producer.draft import Draft, killed
from producer.errors import RunFailedError
from producer.folders import Folders
from producer.run import Run
from schemas import requests_table as table

# Some 300 MB of a file: an id and a fingerprint that does not compress.
_ROWS_PER_FILE = 4_000_000
_ROWS_PER_TASK = 50_000
_FEW_FILES = 8


def before(spark: SparkSession, run: Run) -> DataFrame | None:
    """Open what the last complete run said, or None if there was none."""
    if not (runs := _complete(spark, run)):
        return None
    rows = spark.read.parquet(f"{_address(run)}/{runs[-1]}")
    return rows.select(table.ID, table.FINGERPRINT, table.ASKED)


def drafts(run: Run) -> bool:
    """Tell whether a run writes its requests as they are found: all that it will say, and only where it may write."""
    return run.file.job.dedup and not run.arguments.dry_run and run.arguments.limit is None


def draft(run: Run, requests: DataFrame) -> Draft:
    """Write requests where nobody sees them yet."""
    return Draft.write(_address(run), run.id, requests)


def write(spark: SparkSession, run: Run, requests: DataFrame, draft: Draft | None = None) -> None:
    """Write what this run says, and delete what nobody reads any more; `draft` holds these very requests already.

    A run with `--limit` has seen a part of the source: of the other ids it repeats what was said before.
    """
    folder = table.run_folder(run.id)
    if draft is not None and _in_few_files_already(draft):
        draft.become(f"{_address(run)}/{folder}")
    else:
        _write(spark, run, requests)
    files = _files(spark, run)
    runs = table.complete_runs(files)
    if folder not in runs:
        raise RunFailedError(
            f"Spark left no _SUCCESS in {_address(run)}/{folder}: "
            "leave spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs on"
        )
    _delete(spark, run, runs[: -table.KEPT_RUNS])
    # A run that began before all that are kept is not under way any more.
    if len(runs) >= table.KEPT_RUNS:
        _delete(spark, run, killed(table.run_of(runs[-table.KEPT_RUNS]), files))


def _write(spark: SparkSession, run: Run, requests: DataFrame) -> None:
    requests = requests.select(table.ID, table.FINGERPRINT, table.ROUTE, table.ASKED)
    known = before(spark, run) if run.arguments.limit else None
    if known is not None:
        rest = known.join(requests, table.ID, "left_anti")
        requests = requests.unionByName(rest, allowMissingColumns=True)
    writer = _in_few_files(requests).write.mode("overwrite").options(**table.WRITTEN)
    writer.parquet(f"{_address(run)}/{table.run_folder(run.id)}")


def _in_few_files_already(draft: Draft) -> bool:
    files = draft.files()
    return files <= _FEW_FILES or files * _ROWS_PER_TASK <= draft.rows.count()


def _in_few_files(requests: DataFrame) -> DataFrame:
    """Put tasks together instead of shuffling rows: a file for each core of a small machine, or of a useful size."""
    rows = requests.count()
    return requests.coalesce(max(1, min(_FEW_FILES, rows // _ROWS_PER_TASK), rows // _ROWS_PER_FILE))


def forget(spark: SparkSession, run: Run) -> None:
    """Delete the table: without `dedup` each row has an answer of its own."""
    _delete(spark, run, _complete(spark, run))


def _address(run: Run) -> str:
    return table.address(run.file.locate(run.file.job.target.base))


def _complete(spark: SparkSession, run: Run) -> list[str]:
    return table.complete_runs(_files(spark, run))


def _files(spark: SparkSession, run: Run) -> list[str]:
    return Folders(spark, _address(run)).files(_address(run))


def _delete(spark: SparkSession, run: Run, names: Iterable[str]) -> None:
    folders = Folders(spark, _address(run))
    for name in names:
        folders.delete(f"{_address(run)}/{name}")
