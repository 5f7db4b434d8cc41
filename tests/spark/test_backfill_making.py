"""What is counted while a new table is written is compared with the files, and counted again where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

from backfill.columns import CURRENT, KEY, STATUS
from backfill.making import Making
from backfill.target import Written

pytestmark = pytest.mark.spark

# Two rows of one id, one row that waits, one without an id; two answers are for nobody.
IDS = ["a", "a", "b", "c", None]
ANSWERS = [("a", "succeeded"), ("b", "failed"), ("x", "succeeded"), ("y", "failed")]
SUMS = {"rows": 5, "joined": 3, "failed": 1, "written": 5, "read": 5}


def making(spark: SparkSession, told: bool = True, ids: Sequence[str | None] = IDS, answered: int = 4) -> Making:
    # Cut into tasks, so that no side is known to be empty before it has run.
    rows = spark.createDataFrame([(id_,) for id_ in ids], "id string").repartition(2)
    rows = rows.withColumn(KEY, fn.coalesce("id", fn.lit("\0none")))
    answers = spark.createDataFrame(ANSWERS[:answered], f"{KEY} string, {STATUS} string").repartition(2)
    answers = answers.withColumn(CURRENT, fn.lit(False))
    return Making(rows, answers, told)


def written(made: Making, path: Path) -> DataFrame:
    made.last(made.rows.hint("rebalance", STATUS)).select("id", STATUS).write.parquet(str(path))
    return made.rows.sparkSession.read.parquet(str(path))


@pytest.mark.parametrize("told", [True, False])
def test_rows_and_results_are_counted_once(spark: SparkSession, tmp_path: Path, told: bool) -> None:
    made = making(spark, told)
    table = written(made, tmp_path / "table")

    assert sorted(table.collect(), key=str) == sorted(
        [Row(id="a", llm_status="succeeded")] * 2
        + [Row(id="b", llm_status="failed"), Row(id="c", llm_status=None), Row(id=None, llm_status=None)],
        key=str,
    )
    assert made.totals(Written(table)) == SUMS
    assert made.results(table, "id", SUMS, 4) == {"seen": 4, "matched": 2}


@pytest.mark.parametrize(("ids", "answered"), [(IDS, 0), ([], 4), ([], 0), (["q"], 2)])
def test_a_side_without_rows_is_counted_too(
    spark: SparkSession, tmp_path: Path, ids: list[str | None], answered: int
) -> None:
    made = making(spark, ids=ids, answered=answered)
    table = written(made, tmp_path / "table")
    totals = made.totals(Written(table))

    assert totals == {"rows": len(ids), "joined": 0, "failed": 0, "written": len(ids), "read": len(ids)}
    assert made.results(table, "id", totals, answered) == {"seen": answered, "matched": 0}


class Inflated:
    """What Spark tells after tasks have run again: each count is larger than what there is."""

    def __init__(self, observation: Any) -> None:
        self.get = {name: count + 3 for name, count in observation.get.items()}


def test_counts_of_tasks_that_ran_twice_are_taken_again(spark: SparkSession, tmp_path: Path) -> None:
    made = making(spark)
    table = written(made, tmp_path / "table")
    for name in ("_read", "_results", "_joined"):
        setattr(made, name, Inflated(getattr(made, name)))

    assert made.totals(Written(table)) == SUMS
    assert made.results(table, "id", SUMS, 4) == {"seen": 4, "matched": 2}


def test_what_was_not_read_or_not_written_shows(spark: SparkSession, tmp_path: Path) -> None:
    made = making(spark)
    table = written(made, tmp_path / "table")

    assert made.totals(Written(table.where("id != 'b'")))["read"] == 5
    assert made.results(table, "id", SUMS, 7)["seen"] == 4


def test_a_table_whose_files_tell_its_rows_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    made = making(spark)
    table = written(made, tmp_path / "table")
    unreadable = table.withColumn(STATUS, fn.raise_error(fn.lit("read")).cast("string"))

    assert made.totals(Written(unreadable, counted=5)) == SUMS
    with pytest.raises(PySparkException, match="read"):
        made.totals(Written(unreadable, counted=6))
