"""Every row is published, rejected with a reason, or stands behind another; ids that repeat are settled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from producer import columns as names
from producer.counts import counted, judged_counts
from producer.judging import judge
from producer.rejects import folder, rejected, write
from schemas.topics import MAX_MESSAGE_BYTES
from tests.spark.producing import body, judged, judged_texts, make_run, reason, reasons, write_job, write_rows

pytestmark = pytest.mark.spark


def test_rows_without_id_or_text_follow_the_written_rule(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("7", None), ("8", ""), (None, "hi"), ("9", "  "), ("10", "ok"), ("", "x"), (" a", "x")]

    for template in ("{text}", "Review: {text}\nLabel:"):
        found = reasons(judged_texts(spark, tmp_path, rows, prompt={"template": template}))
        assert found == {
            "7": "null_column",
            "8": "blank_prompt",
            None: "null_id",
            "9": "blank_prompt",
            "10": None,
            "": "invalid_id",
            " a": "invalid_id",
        }


def test_a_null_column_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, [("1", "a", None)], "id string, text string, title string")
    (row,) = judged(spark, write_job(tmp_path, prompt={"template": "{title}: {text}"}))

    assert tuple(row[names.VERDICT]) == ("null_column", "title")


def test_a_message_is_measured_in_bytes_with_its_key(spark: SparkSession, tmp_path: Path) -> None:
    (probe,) = judged_texts(spark, tmp_path, [("key", "x")])
    room = MAX_MESSAGE_BYTES - len(body(probe)["prompt"].encode()) - len(probe[names.VALUE].encode()) + 2 - 3
    texts = [("fit", "x" * room), ("one", "x" * (room + 1)), ("moj", "🙂" * 300_000)]
    found = {row[names.ID]: row for row in judged_texts(spark, tmp_path, texts)}

    assert len(found["fit"][names.VALUE].encode()) + 3 == MAX_MESSAGE_BYTES
    assert reason(found["fit"]) is None
    assert tuple(found["one"][names.VERDICT]) == ("message_too_large", "1000001 bytes, where 1000000 are allowed")
    assert found["moj"][names.VERDICT]["detail"].startswith("1200")


def test_bytes_in_a_parquet_file_that_are_no_text_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT '1' AS id, CAST(X'61E9' AS STRING) AS text UNION ALL SELECT CAST(X'E9' AS STRING), 'a'")
    frame.write.parquet(str(tmp_path / "rows"))

    assert sorted(map(str, map(reason, judged(spark, write_job(tmp_path))))) == ["invalid_id", "invalid_text"]


REPEATING = [
    ("same", "s"),
    ("same", "s"),
    ("same", "s"),
    ("differ", "a"),
    ("differ", "b"),
    ("half", None),
    ("half", "h"),
    ("alone", "a"),
    (None, "a"),
    (None, "a"),
]


def fates(spark: SparkSession, folder: Path, **changes: Any) -> list[tuple[Any, str | None]]:
    found = judged_texts(spark, folder, REPEATING, **changes)
    return sorted(((row[names.ID], "repeated" if row[names.REPEATED] else reason(row)) for row in found), key=repr)


def test_rows_of_one_id_are_settled_by_their_requests(spark: SparkSession, tmp_path: Path) -> None:
    expected: list[tuple[Any, str | None]] = [
        ("same", None),
        ("same", "repeated"),
        ("same", "repeated"),
        ("differ", "conflicting_id"),
        ("differ", "conflicting_id"),
        ("half", "null_column"),
        ("half", None),
        ("alone", None),
        (None, "null_id"),
        (None, "null_id"),
    ]
    assert fates(spark, tmp_path) == sorted(expected, key=repr)

    without_dedup = [(id_, None if fate == "repeated" else fate) for id_, fate in expected]
    assert fates(spark, tmp_path, dedup=False) == sorted(without_dedup, key=repr)


def test_equal_numbers_and_texts_are_one_id(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, [(1, "a"), (1, "b"), (10, "c")], "id int, text string")
    assert reasons(judged(spark, write_job(tmp_path))) == {"1": "conflicting_id", "10": None}


def test_counts_add_up_and_rejects_are_written_once(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, REPEATING, "id string, text string")
    run = make_run(write_job(tmp_path))
    with judge(spark, run) as found:
        rows, observation = counted(found.rows)
        published = len(rows.collect())
        for _ in range(2):
            written = write(rejected(found.rows, found.table), folder(run.file, run.id))
    counts = judged_counts(observation.get, published, skipped=0)

    assert (counts.read, counts.published, counts.rejected, counts.deduplicated) == (10, 3, 5, 2)
    assert counts.rejected_by_reason == {"null_id": 2, "null_column": 1, "conflicting_id": 2}
    assert counts.imbalance() is None
    table = spark.read.parquet(str(tmp_path / "labelled_rejects"))
    assert written == table.count() == 5
    assert set(table.columns) == {"id", "text", "reject_reason", "reject_detail", "run"}
    assert [row["run"] for row in table.select("run").distinct().collect()] == [run.id]
    assert [row["text"] for row in table.where("reject_reason = 'null_id'").collect()] == ["a", "a"]


def test_a_usual_table_is_not_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, [("1", "a"), ("2", "b")], "id string, text string")
    with judge(spark, make_run(write_job(tmp_path))) as found:
        rows, _ = counted(found.rows)
        plan = rows._jdf.queryExecution().executedPlan().toString()

    assert "Exchange" not in plan
    assert "Python" not in plan
