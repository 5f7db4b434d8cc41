"""One request, one call: which of the rows that ask the same is published, and what the next run is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from producer import columns as names
from producer import distinct, request_table
from producer.counts import counted, judged_counts, publishable
from producer.judging import judge
from producer.prompts import NO_ROUTE
from schemas import requests_table
from tests.spark.producing import judged_texts, make_run, reasons, write_job, write_rows

pytestmark = pytest.mark.spark

JUDGED = f"{names.ID} string, {names.FINGERPRINT} string, {names.VERDICT} string, {names.REPEATED} boolean"
SAID = "id string, fingerprint string, asked boolean"
WRITTEN = ["id", "fingerprint", "route", "asked"]


def frame(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str = SAID) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def asks(judged: DataFrame) -> DataFrame:
    return distinct.asks(publishable(judged.withColumn(names.ROUTE, fn.lit(NO_ROUTE))))


def said(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.select("id", "fingerprint", "asked").collect())


def test_the_least_id_leads_for_its_request(spark: SparkSession) -> None:
    rows = [
        ("b", "f1", None, False),
        ("a", "f1", None, False),
        ("a", "f1", None, True),
        ("c", "f1", "too_long", False),
        ("d", "f2", None, False),
    ]
    assert said(distinct.requests(asks(frame(spark, rows, JUDGED)), None)) == [
        ("a", "f1", True),
        ("b", "f1", False),
        ("d", "f2", True),
    ]


def test_who_led_before_leads_on_while_it_asks_the_same(spark: SparkSession) -> None:
    now = [(id_, request, None, False) for id_, request in zip("abcdefg", "1122334", strict=True)]
    before = [("b", "1", True), ("c", "1", False), ("d", "3", True), ("z", "3", False), ("y", "4", True)]
    found = said(distinct.requests(asks(frame(spark, now, JUDGED)), frame(spark, before)))

    # b leads on; d asks something else by now; y is gone.
    assert found == [
        ("a", "1", False),
        ("b", "1", True),
        ("c", "2", True),
        ("d", "2", False),
        ("e", "3", True),
        ("f", "3", False),
        ("g", "4", True),
    ]


def test_a_rejected_row_is_rejected_whoever_leads_for_its_id(spark: SparkSession) -> None:
    rows = [("a", "f1", None, False), ("b", "f1", None, False), ("b", "f2", "too_long", False)]
    judged_rows = frame(spark, rows, JUDGED)
    found = distinct.without_followers(judged_rows, distinct.requests(asks(judged_rows), None))

    assert found.columns == judged_rows.columns
    assert sorted(tuple(row) for row in found.collect()) == [rows[0], ("b", "f1", None, True), rows[2]]


TEXTS = [("a", "x"), ("b", "x"), ("c", "y"), ("c", "y"), ("d", "y"), ("e", None), ("f", "x "), (None, "x")]


def test_rows_that_ask_the_same_stand_behind_one(spark: SparkSession, tmp_path: Path) -> None:
    clean = {"columns": ["text"], "collapse_whitespace": True}
    fates = reasons([row for row in judged_texts(spark, tmp_path, TEXTS, clean=clean) if row[names.ID] != "c"])
    assert fates == {
        "a": None,
        "b": "repeated",
        "d": "repeated",
        "e": "null_column",
        "f": "repeated",
        None: "null_id",
    }
    rough = reasons(judged_texts(spark, tmp_path, TEXTS))
    assert (rough["b"], rough["f"]) == ("repeated", None)
    alone = reasons(judged_texts(spark, tmp_path, TEXTS, dedup=False))
    assert {fate for id_, fate in alone.items() if id_ in set("abcdf")} == {None}


def test_the_sum_holds_and_the_table_says_who_asks_what(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, TEXTS, "id string, text string")
    run = make_run(write_job(tmp_path))
    with judge(spark, run) as found:
        rows, observation = counted(found.rows)
        published = {row[names.ID]: row[names.FINGERPRINT] for row in rows.collect()}
        assert found.requests is not None
        request_table.write(spark, run, found.requests)
    counts = judged_counts(observation.get, len(published), skipped=0)

    assert (counts.read, counts.published, counts.rejected, counts.deduplicated) == (8, 3, 2, 3)
    assert counts.imbalance() is None
    table = spark.read.parquet(str(tmp_path / "labelled_requests"))
    assert table.columns == [*WRITTEN, "run"]
    told = {row.id: (row.fingerprint, row.asked) for row in table.collect()}
    assert {id_: request for id_, (request, asked) in told.items() if asked} == published
    assert {
        id_: request == published[lead] for id_, lead in (("b", "a"), ("d", "c")) for request in [told[id_][0]]
    } == {
        "b": True,
        "d": True,
    }
    assert len(list((tmp_path / "labelled_requests").rglob("*.parquet"))) == 1


def keep(spark: SparkSession, folder: Path, rows: list[tuple[Any, ...]], **arguments: Any) -> list[tuple[Any, ...]]:
    run = make_run(write_job(folder), **arguments)
    run.id = f"run-{len(list(folder.glob('labelled_requests/*')))}-{len(rows)}"
    request_table.write(spark, run, frame(spark, rows).withColumn("route", fn.lit(NO_ROUTE)))
    known = request_table.before(spark, run)
    assert known is not None
    return [tuple(row) for row in known.orderBy("id").collect()]


def test_each_run_says_all_anew_and_a_limited_one_repeats_the_rest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_table, "KEPT_RUNS", 2)
    run = make_run(write_job(tmp_path))
    assert request_table.before(spark, run) is None
    first: list[tuple[Any, ...]] = [("a", "1", True), ("b", "1", False)]

    assert keep(spark, tmp_path, first, limit=2) == first
    assert keep(spark, tmp_path, [("a", "2", True)], limit=1) == [("a", "2", True), ("b", "1", False)]
    assert keep(spark, tmp_path, [("c", "3", True)]) == [("c", "3", True)]
    assert len(list((tmp_path / "labelled_requests").iterdir())) == 2

    (tmp_path / "labelled_requests" / "run=run-9-broken-off").mkdir()
    for draft in ("_draft-run-0", "_draft-run-5-under-way"):
        (tmp_path / "labelled_requests" / draft).mkdir()
        (tmp_path / "labelled_requests" / draft / "part.parquet").write_text("")
    assert keep(spark, tmp_path, [("c", "3", True)]) == [("c", "3", True)]
    assert not (tmp_path / "labelled_requests" / "_draft-run-0").exists()
    assert (tmp_path / "labelled_requests" / "_draft-run-5-under-way").exists()
    known = request_table.before(spark, run)
    assert known is not None
    assert known.count() == 1
    request_table.forget(spark, run)
    assert request_table.before(spark, run) is None


def test_a_table_without_repeats_is_not_looked_at_more_closely(spark: SparkSession, tmp_path: Path) -> None:
    apart = frame(spark, [("a", "1", None, False), ("b", "2", None, False), ("c", "2", "too_long", False)], JUDGED)
    shared = frame(spark, [("a", "1", None, False), ("b", "1", None, False)], JUDGED)
    ids = [("a", "1", None, False), ("a", "2", None, False)]
    columns = (requests_table.ID, requests_table.FINGERPRINT)
    assert distinct.repeating(asks(apart), *columns) == frozenset()
    assert distinct.repeating(asks(shared), *columns) == {requests_table.FINGERPRINT}
    assert distinct.repeating(asks(frame(spark, ids, JUDGED)), *columns) == {requests_table.ID}
    assert distinct.repeating(asks(frame(spark, ids + ids, JUDGED)), *columns) == set(columns)


def files(folder: Path) -> list[str]:
    return sorted({str(file.relative_to(folder).parent) for file in folder.rglob("*.parquet")})


@pytest.mark.parametrize("few", [8, 0])
def test_requests_none_of_which_repeats_are_written_once_and_seen_when_all_is_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(request_table, "_FEW_FILES", few)
    write_rows(spark, tmp_path, [("a", "x"), ("b", "y"), ("c", None)], "id string, text string")
    run = make_run(write_job(tmp_path))
    table = tmp_path / "labelled_requests"
    with judge(spark, run) as found:
        assert found.requests is not None
        assert said(found.requests.where("asked")) == said(found.requests)
        assert [row.id for row in found.requests.orderBy("id").collect()] == ["a", "b"]
        assert found.distinct == 2
        assert files(table) == [f"_draft-{run.id}"]
        assert request_table.before(spark, run) is None
        request_table.write(spark, run, found.requests, found.draft)
    assert files(table) == [f"run={run.id}"]
    known = request_table.before(spark, run)
    assert known is not None
    assert [(row.id, row.asked) for row in known.orderBy("id").collect()] == [("a", True), ("b", True)]
    assert spark.read.parquet(str(table)).columns == [*WRITTEN, "run"]


@pytest.mark.parametrize("rows", [[("a", "x"), ("b", "x")], [("a", "x"), ("a", "x")], [("a", "x"), ("b", "y")], []])
def test_of_a_run_that_goes_no_further_nothing_is_left(
    spark: SparkSession, tmp_path: Path, rows: list[tuple[str, str]]
) -> None:
    write_rows(spark, tmp_path, rows, "id string, text string")
    table = tmp_path / "labelled_requests"
    with judge(spark, make_run(write_job(tmp_path))) as found:
        assert found.distinct == min(len(rows), len({text for _, text in rows}))
        assert len(files(table)) == 1
    assert files(table) == []
    for dry in ({"dry_run": True}, {"limit": 1}):
        with judge(spark, make_run(write_job(tmp_path), **dry)):
            assert files(table) == []
