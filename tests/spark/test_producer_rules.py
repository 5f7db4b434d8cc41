"""Which rows are asked at all: rules before the model, and the language without one; each beside what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from producer import columns as names
from producer.counts import counted, judged_counts
from producer.errors import WrongJobError
from producer.judging import judge
from producer.verdicts import Reject
from tests.spark.producing import body, judged, judged_texts, make_run, reason, reasons, write_job, write_rows

pytestmark = pytest.mark.spark

RULES = [
    {"name": "known-ad", "when": "text LIKE 'BUY%'", "send": False},
    {"name": "link", "when": "text RLIKE 'http'"},
    {"name": "long", "when": "prompt_chars > 20"},
]
POSTS = [
    ("ad", "BUY http://a.example"),
    ("link", "see http://b.example now, all of you"),
    ("long", "a text of more than 20 characters"),
    ("fine", "hello"),
    ("none", None),
    (None, "see http://c.example"),
]


def verdicts(spark: SparkSession, folder: Path, rows: list[tuple[Any, ...]], **changes: Any) -> dict[Any, Any]:
    found = judged_texts(spark, folder, rows, **changes)
    return {row[names.ID]: tuple(row[names.VERDICT]) if reason(row) else None for row in found}


def test_the_first_rule_that_holds_decides_and_only_hits_are_sent(spark: SparkSession, tmp_path: Path) -> None:
    assert verdicts(spark, tmp_path, POSTS, rules=RULES) == {
        "ad": ("ruled_out", "known-ad"),
        "link": None,
        "long": None,
        "fine": ("no_rule", None),
        "none": ("no_rule", None),
        None: ("null_id", None),
    }
    rest = [*RULES[:2], {"name": "rest"}]
    assert reasons(judged_texts(spark, tmp_path, POSTS, rules=rest)) == {
        "ad": "ruled_out",
        "link": None,
        "long": None,
        "fine": None,
        "none": "null_column",
        None: "null_id",
    }


def test_routes_ask_for_the_rule_and_each_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, POSTS, "id string, text string")
    routes = [{"when": "rule = 'link'", "model": "large"}, {"model": "small"}]
    run = make_run(write_job(tmp_path, rules=RULES, routes=routes))
    with judge(spark, run) as found:
        rows, observation = counted(found.rows, run.file.job)
        asked = {row[names.ID]: body(row)["model"] for row in rows.collect()}
    counts = judged_counts(observation.get, len(asked), skipped=0)

    assert asked == {"link": "large", "long": "small"}
    assert counts.rules == {"known-ad": 1, "link": 2, "long": 1}
    assert counts.rejected_by_reason == {"null_id": 1, "no_rule": 2, "ruled_out": 1}
    assert counts.imbalance() is None


SPOKEN = [
    ("zh", "这是一条评论。 OK?", "ZH"),
    ("mixed", "电池 battery life", " zh"),
    ("en", "all in English, with 数", "en"),
    ("digits", "12 345 – 6!", "zh"),
    ("unsaid", "没有说", None),
]


@pytest.mark.parametrize(
    ("language", "rejected"),
    [
        ({"column": "lang", "keep": ["zh"]}, {"en": "lang", "unsaid": "lang"}),
        ({"scripts": ["Han"]}, {"mixed": "15 % Han", "en": "6 % Han", "digits": "0 % Han"}),
        ({"scripts": ["Han", "Latin"], "min_share": 1.0}, {"digits": "0 % Han, Latin"}),
        (
            {"column": "lang", "keep": ["zh", "en"], "scripts": ["Latin"], "min_share": 0.6},
            {"zh": "25 % Latin", "digits": "0 % Latin", "unsaid": "lang"},
        ),
    ],
)
def test_rows_of_other_languages_are_rejected(
    spark: SparkSession, tmp_path: Path, language: dict[str, Any], rejected: dict[str, str]
) -> None:
    write_rows(spark, tmp_path, SPOKEN, "id string, text string, lang string")
    found = judged(spark, write_job(tmp_path, language=language))

    assert {row[names.ID]: row[names.VERDICT]["detail"] for row in found if reason(row)} == rejected
    assert {reason(row) for row in found} == {None, "other_language"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rules": [{"name": "a", "when": "nope > 1"}]}, r"rules.0.when: .*`nope`"),
        ({"rules": [{"name": "a", "when": "text"}]}, r"rules.0.when: "),
        ({"rules": [{"name": "a", "when": "rule = 'a'"}]}, r"rules.0.when: .*`rule`"),
        ({"language": {"scripts": ["Klingon"]}}, r"language.scripts: "),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: SparkSession, tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    write_rows(spark, tmp_path, [("1", "a")], "id string, text string")
    with pytest.raises(WrongJobError, match=problem):
        judged(spark, write_job(tmp_path, **changes))


def test_every_reason_is_counted_under_its_name() -> None:
    seen = {"read": 0, "deduplicated": 0, "truncated": 0}
    observed = dict.fromkeys(map(str, Reject), 2) | seen

    assert judged_counts(observed, 0, 0).rejected_by_reason == dict.fromkeys(map(str, Reject), 2)
