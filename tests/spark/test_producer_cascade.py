"""The second model of a cascade: which rows may go on, and what becomes of those that do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from producer import cascade
from producer import columns as names
from producer.counts import counted, judged_counts
from producer.duplicates import unsettled
from producer.judging import judge
from producer.prompts import prepare
from producer.request import Request
from producer.source import read
from schemas.fingerprint import fingerprint
from schemas.message import Prompt, decode
from tests.spark.producing import make_run, write_job, write_rows

pytestmark = pytest.mark.spark

ROUTES: list[dict[str, Any]] = [
    {"when": "text LIKE 'a%'", "model": "large"},
    {"when": "text LIKE 'b%'", "model": "small", "escalate": {"model": "large", "after": ["refused", "too_long"]}},
    {"model": "small", "escalate": {"model": "huge"}},
]
ROWS = [("1", "a"), ("2", "b"), ("3", "b2"), ("4", "c"), ("5", None)]


def asked(model: str, text: str) -> str:
    return fingerprint(model, [{"role": "user", "content": text}])


def test_rows_that_have_gone_on_ask_the_second_model(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, ROWS, "id string, text string")
    run = make_run(write_job(tmp_path, routes=ROUTES))
    job, table = run.file.job, read(spark, run.file, None)
    request = Request.of(run.file, run.id, run.started)
    may = cascade.candidates(prepare(table, job, request), job, request)
    assert sorted(map(tuple, may.collect())) == [
        ("2", asked("small", "b"), asked("large", "b"), "refused,too_long"),
        ("3", asked("small", "b2"), asked("large", "b2"), "refused,too_long"),
        ("4", asked("small", "c"), asked("huge", "c"), "invalid_output,truncated,refused"),
    ]

    found = cascade.gone(may.where(f"{names.ID} IN ('2', '4')").union(may))
    found = found.where("__headrace_gone_id != '3'")
    rows, observation = counted(unsettled(prepare(table, job, request, found)), job)
    read_back = [decode(None, row[names.VALUE].encode()) for row in rows.collect()]
    told = {prompt.id: (prompt.model, prompt.fingerprint) for prompt in read_back if isinstance(prompt, Prompt)}

    assert told == {
        "1": ("large", asked("large", "a")),
        "2": ("large", asked("large", "b")),
        "3": ("small", asked("small", "b2")),
        "4": ("huge", asked("huge", "c")),
    }
    assert judged_counts(observation.get, 4, 0).tiers == {
        "large": {"rows": 2, "share": 0.5, "escalated": 1},
        "small": {"rows": 1, "share": 0.25, "escalated": 0},
        "huge": {"rows": 1, "share": 0.25, "escalated": 1},
    }


def test_tiers_share_out_all_requests_of_a_job_with_routes(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("1", "a", 0.9), ("2", "b", 0.1), ("3", "c", 0.1), ("4", "d", None), ("5", "", 0.9)]
    write_rows(spark, tmp_path, rows, "id string, text string, weight double")
    routes = [{"when": "weight > 0.5", "model": "large"}, {"when": "weight <= 0.5", "model": "small"}]
    run = make_run(write_job(tmp_path, routes=routes))
    with judge(spark, run) as found:
        passing, observation = counted(found.rows, run.file.job)
        passing.collect()

    counts = judged_counts(observation.get, 4, 0)
    assert counts.tiers == {
        "large": {"rows": 1, "share": 0.25, "escalated": 0},
        "small": {"rows": 2, "share": 0.5, "escalated": 0},
        "default": {"rows": 1, "share": 0.25, "escalated": 0},
    }
    assert replace(counts, tiers={}).rejected == 1
