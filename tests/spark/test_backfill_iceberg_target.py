"""An Iceberg table stays small in files, and what it cannot be is told before anything is written."""

from __future__ import annotations

import uuid

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from backfill import target_iceberg
from backfill.changes import HELD, ROWS
from backfill.columns import KEY
from backfill.errors import RunFailedError, WrongJobError
from backfill.target import Replacement, Shape
from backfill.target_iceberg import IcebergTarget
from backfill.transform import keyed
from tests.spark_session import WITH_ICEBERG, delta_spark

__all__ = ["delta_spark"]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not WITH_ICEBERG, reason="Iceberg has no jar for this Spark: make test-iceberg"),
]

SCHEMA = StructType([StructField(name, StringType()) for name in ("id", "day", "llm_status")])
SHAPE = Shape(SCHEMA, 2, "id", [])


@pytest.fixture
def name() -> str:
    return f"lake.tests.t{uuid.uuid4().hex}"


def test_many_small_runs_leave_few_files(
    delta_spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_iceberg, "_MOST_FILES", 6)
    target = IcebergTarget(delta_spark, name, SHAPE)
    target.create(delta_spark.createDataFrame([("0", "1", None)], SCHEMA), lambda _: None)
    for run in range(1, 15):
        present = target.existing()
        assert present is not None
        new = keyed(delta_spark.createDataFrame([(str(run), "1", "failed")], SCHEMA), "id", SHAPE.source)
        counted = new.withColumns({ROWS: fn.lit(1), HELD: fn.lit(None).cast("long")})
        target.replace(
            Replacement(counted.select(KEY, ROWS, HELD), counted, keyed(present, "id", SHAPE.source)), lambda _: None
        )
        assert delta_spark.table(f"{name}.files").count() <= 7
    assert delta_spark.table(name).count() == 15


def test_other_columns_types_and_partitions_are_refused(delta_spark: SparkSession, name: str) -> None:
    IcebergTarget(delta_spark, name, SHAPE).create(delta_spark.createDataFrame([], SCHEMA), lambda _: None)
    for shape, words in (
        (Shape(SCHEMA, 2, "id", ["day"]), r"partitioned by \[\], the job file says \[day\]"),
        (Shape(StructType([*SCHEMA.fields, StructField("x", StringType())]), 2, "id", []), "no column x"),
    ):
        with pytest.raises(RunFailedError, match=words):
            IcebergTarget(delta_spark, name, shape).existing()


def test_a_catalog_that_is_not_settled_is_told_with_its_setting(delta_spark: SparkSession) -> None:
    with pytest.raises(WrongJobError, match=r"no catalog sea: start with .*spark.sql.catalog.sea=org.apache.iceberg"):
        IcebergTarget(delta_spark, "sea.tests.t", SHAPE)


def test_small_whole_numbers_get_a_type_that_iceberg_has(delta_spark: SparkSession) -> None:
    rows = delta_spark.sql("SELECT CAST(1 AS tinyint) AS a, CAST(2 AS smallint) AS b, 'x' AS c")
    assert [kind for _, kind in IcebergTarget.fitted(rows).dtypes] == ["int", "int", "string"]
