"""A day of small runs: after each the table has as many files as partitions, whatever shuffles are cut into.

What a run does hangs on the table that it finds, not on how many runs came before: a day of hourly runs shows what
one of five-minute runs would. With 200 parts a shuffle, Spark's own number, most of a run is the parts' own cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from tests.services import PostgresService
from tests.spark.backfilling import Place, migrated
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

# Every hour of one day.
RUNS = 24
ROWS_A_RUN = 10
PARTITIONS = 3
# Parts of a shuffle, many more than a table is to have files.
CUTS = 20


@pytest.fixture
def place(spark: SparkSession, postgres: PostgresService, tmp_path: Path) -> Iterator[Place]:
    """An empty source, and shuffles that are cut into many parts."""
    (tmp_path / "rows").mkdir()
    spark.conf.set("spark.sql.shuffle.partitions", str(CUTS))
    yield Place(spark, tmp_path, migrated(postgres))
    spark.conf.set("spark.sql.shuffle.partitions", "2")


def ids(run: int) -> list[str]:
    return [f"r-{run * ROWS_A_RUN + n}" for n in range(ROWS_A_RUN)]


def day(run: int) -> int:
    return 1 + run * PARTITIONS // RUNS


def come(place: Place, run: int) -> None:
    """Let new rows come, and their answers."""
    rows = pa.table({"id": ids(run), "day": [f"2026-03-0{day(run)}"] * ROWS_A_RUN, "text": ["x"] * ROWS_A_RUN})
    parquet.write_table(rows, place.folder / "rows" / f"{run:03}.parquet")
    place.answer(*ids(run), result=f"run {run}")


def files(place: Place) -> list[Path]:
    return [path for path in place.target.rglob("*.parquet") if path.is_file()]


@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=["unpartitioned", "partitioned"])
def test_a_day_of_small_runs_leaves_one_file_a_partition(place: Place, partition_by: list[str]) -> None:
    changes = {"target": {"partition_by": partition_by}}
    for run in range(RUNS):
        come(place, run)
        assert place.run(**changes).written == ROWS_A_RUN
        assert len(files(place)) == (day(run) if partition_by else 1)

    before = place.state()
    last = place.run(**changes)
    assert (last.rows, last.joined, last.written) == (RUNS * ROWS_A_RUN, RUNS * ROWS_A_RUN, 0)
    assert place.state() == before
    expected = sorted((id_, f"run {run}") for run in range(RUNS) for id_ in ids(run))
    assert [tuple(row) for row in place.rows("id", "llm_result")] == expected
