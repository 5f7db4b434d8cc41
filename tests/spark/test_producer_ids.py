"""Ids made of content: the same in every run and in both Spark jobs, whatever the table is cut into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from backfill.columns import KEY
from backfill.transform import keyed
from producer import columns as names
from producer.judging import judge
from schemas import ids
from schemas.ids import DerivedId
from schemas.settings import SettingsError
from tests.spark.producing import judged, make_run, reasons, write_job, write_rows

pytestmark = pytest.mark.spark

MANY = settings(max_examples=3, deadline=None, suppress_health_check=[*HealthCheck], derandomize=True, database=None)
TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
RULE = DerivedId.model_validate({"from": ["a`b", "c.d"]})
SCHEMA = "`a``b` string, `c.d` string"


@MANY
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=60))
def test_spark_and_python_derive_the_same_id(spark: SparkSession, rows: list[tuple[str | None, str | None]]) -> None:
    awkward = [("ab", "c"), ("a", "bc"), ("1:", "a"), ("", "1:a"), (None, None), ("", None), ("\0", "🎉")]
    frame = spark.createDataFrame([*rows, *awkward], SCHEMA)
    found = keyed(frame.withColumn("id", fn.expr(ids.sql(RULE))), RULE, frame.schema).collect()

    assert [row["id"] for row in found] == [ids.derived([row[0], row[1]]) for row in found]
    assert all(row["id"] in {None, row[KEY]} for row in found)
    by_id = {row["id"]: (row[0] or "", row[1] or "") for row in found}
    assert len(by_id) == len({(row[0] or "", row[1] or "") for row in found})


ROWS = [*((f"shop {n % 7}", f"text {n}") for n in range(300)), ("shop 1", "text 1"), (None, ""), ("", "text 2")]


def written(spark: SparkSession, folder: Path, parts: int) -> DataFrame:
    rows = spark.createDataFrame(ROWS, "shop string, text string").repartition(parts)
    rows.write.mode("overwrite").parquet(str(folder / "rows"))
    return spark.read.parquet(str(folder / "rows"))


def test_the_table_may_be_cut_anew_and_the_ids_stay(spark: SparkSession, tmp_path: Path) -> None:
    job = write_job(tmp_path, id={"from": ["shop", "text"]})
    seen = []
    for parts in (1, 7):
        rows = written(spark, tmp_path, parts)
        with judge(spark, make_run(job)) as found:
            passing = found.rows.where(f"{names.VERDICT} IS NULL AND NOT {names.REPEATED}")
            seen.append({row[names.ID]: row[names.FINGERPRINT] for row in passing.collect()})
            fates = found.rows.groupBy(f"{names.VERDICT}.reason", names.REPEATED).count().collect()
        keys = keyed(rows, make_run(job).file.job.id, rows.schema).select(KEY)
        assert {row[KEY] for row in keys.collect()} >= set(seen[-1])

    assert seen[0] == seen[1]
    assert len(seen[0]) == 300
    # Row 301 repeats another one, row 302 has no content, row 303 asks what another one does under an id of its own.
    assert {(row[0], row[1]): row[2] for row in fates} == {(None, False): 300, (None, True): 2, ("null_id", False): 1}


def test_rows_of_one_content_that_ask_different_things_conflict(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, [("k", "a"), ("k", "b"), ("l", "c")], "key string, text string")
    found = reasons(judged(spark, write_job(tmp_path, id={"from": ["key"]})))

    assert found == {ids.derived(["k"]): "conflicting_id", ids.derived(["l"]): None}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("key double, text string", "id: column key is double; ids are text or whole numbers"),
        ("text string, other string", "id: the source has no column key; it has other, text"),
    ],
)
def test_columns_that_give_no_stable_id_are_refused(
    spark: SparkSession, tmp_path: Path, schema: str, problem: str
) -> None:
    rows: list[tuple[Any, ...]] = [(1.5, "a")] if "double" in schema else [("a", "b")]
    write_rows(spark, tmp_path, rows, schema)
    with pytest.raises(SettingsError, match=problem):
        judged(spark, write_job(tmp_path, id={"from": ["key", "text"]}))


def test_bytes_that_are_no_text_make_no_id(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT CAST(X'61E9' AS STRING) AS key, 'x' AS text").write.parquet(str(tmp_path / "rows"))

    assert list(reasons(judged(spark, write_job(tmp_path, id={"from": ["key"]}))).values()) == ["invalid_id"]
