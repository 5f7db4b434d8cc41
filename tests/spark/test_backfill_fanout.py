"""Which result is for which row, settled on tiny frames."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill.columns import CURRENT, HANDLE, KEY
from backfill.fanout import Fanout
from backfill.results import KNOWN, columns, schema

pytestmark = pytest.mark.spark

ASKS = "id string, fingerprint string, asked boolean"


def at(hour: int) -> datetime:
    return datetime(2026, 3, 1, hour, tzinfo=UTC)


def delivered(spark: SparkSession, asks: list[tuple[str, str]], known: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Who gets what, by id: the handle, and whether it is the present request's."""
    requests = spark.createDataFrame([(*ask, True) for ask in asks], ASKS)
    fan = Fanout.of(requests, spark.createDataFrame(known, schema(KNOWN)))
    found = fan.deliveries.collect()
    fan.free()
    assert len({row[KEY] for row in found}) == len(found)
    return {row[KEY]: (row[HANDLE], row[CURRENT]) for row in found}


def test_every_row_gets_the_answer_to_its_present_request(spark: SparkSession) -> None:
    asks = [("a", "f1"), ("b", "f1"), ("c", "f2"), ("d", "f3"), ("e", "f4")]
    known = [
        ("a", "f1", "succeeded", at(1), "a"),
        ("c", "f1", "succeeded", at(2), "c"),
        ("d", "f9", "failed", at(1), "d"),
        ("gone", "f3", "failed", at(1), "gone"),
        ("b", "f2", "succeeded", at(1), " f2 b"),
    ]
    # a keeps its own although c's is later; b takes the later one; c takes what b was told before; e waits.
    assert delivered(spark, asks, known) == {
        "a": ("a", True),
        "b": ("c", True),
        "c": (" f2 b", True),
        "d": ("gone", True),
        "gone": ("gone", False),
    }


def test_a_success_is_better_than_ones_own_failure_and_the_latest_failure_than_an_older_one(
    spark: SparkSession,
) -> None:
    asks = [(id_, "f1") for id_ in "abc"]
    failures = [("a", "f1", "failed", at(1), "a"), ("z", "f1", "failed", None, "z")]
    assert delivered(spark, asks, failures) == {
        "a": ("a", True),
        "b": ("a", True),
        "c": ("a", True),
        "z": ("z", False),
    }
    success = [*failures, ("b", "f1", "succeeded", at(0), "b")]
    assert {delivered(spark, asks, success)[id_] for id_ in "abc"} == {("b", True)}


def test_rows_that_nobody_asked_for_and_results_without_a_request_go_by_id(spark: SparkSession) -> None:
    asks = [("a", "f1"), ("b", "f2"), ("c", "f2")]
    known = [
        ("a", None, "succeeded", at(1), "a"),
        ("b", None, "succeeded", at(1), "b"),
        ("c", "f2", "succeeded", at(1), "c"),
        ("unknown", "f1x", "succeeded", at(1), "unknown"),
        ("former", "f7", "succeeded", at(1), " f7 former"),
    ]
    assert delivered(spark, asks, known) == {
        "a": ("a", False),
        "b": ("c", True),
        "c": ("c", True),
        "unknown": ("unknown", False),
    }


def test_what_a_call_cost_stands_on_the_row_that_was_asked(spark: SparkSession) -> None:
    names = columns(with_json=False, by_request=True)
    one = {
        **dict.fromkeys(names),
        **{"id": "a", "fingerprint": "f1", "status": "succeeded", "result": "yes", HANDLE: "a", "retry_count": 2},
        **{"prompt_tokens": 5, "completion_tokens": None, "cost_usd": Decimal("0.5")},
    }
    results = spark.createDataFrame([tuple(one[name] for name in names)], schema(names))
    requests = spark.createDataFrame([("a", "f1", True), ("b", "f1", False)], ASKS)
    fan = Fanout.of(requests, results.select(*KNOWN))
    rows = fan.delivered(results).orderBy("id").collect()

    told = [(r.id, r.result, r.prompt_tokens, r.completion_tokens, r.cost_usd, r.retry_count) for r in rows]
    assert told == [("a", "yes", 5, None, Decimal("0.5"), 2), ("b", "yes", 0, 0, Decimal(0), -1)]
    assert (fan.read(), fan.matched(requests.selectExpr(f"id AS {KEY}"))) == (1, 1)
    fan.free()


def test_where_nothing_is_shared_each_result_stays_where_it_is(spark: SparkSession) -> None:
    requests = spark.createDataFrame([("a", "f1", True), ("b", "f2", True)], ASKS)
    known = [
        ("a", "f1", "succeeded", at(1), "a"),
        ("b", "f2", "succeeded", at(1), "b"),
        ("z", "f1", "failed", at(1), "z"),
    ]
    fan = Fanout.of(requests, spark.createDataFrame(known, schema(KNOWN)))
    results = spark.createDataFrame([("a", 1), ("b", 2), ("z", 3)], "id string, prompt_tokens bigint")

    assert (fan.shared, fan.strangers) == (False, True)
    assert sorted(map(tuple, fan.delivered(results).collect())) == [("a", 1, True), ("b", 2, True), ("z", 3, False)]
    fan.free()
    fan = Fanout.of(requests, spark.createDataFrame(known[:2], schema(KNOWN)))
    delivered_now = fan.delivered(results.where("id <> 'z'"))
    assert sorted(map(tuple, delivered_now.collect())) == [("a", 1, True), ("b", 2, True)]
    assert "Join" not in delivered_now._jdf.queryExecution().executedPlan().toString()
    fan.free()
