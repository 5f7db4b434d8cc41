"""What an estimate rests on, its bounds and its time, against sums by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from control.estimate import bounds, pace, showing
from control.estimate.document import Amount, EstimateDocument
from control.estimate.estimating import Asked, estimate, rows_of
from control.estimate.reading import Facts
from schemas.bills import Earlier
from schemas.catalog import Catalog
from schemas.documents import validate_document
from schemas.examples import Example
from schemas.job import Job
from schemas.models import ModelsFile

BASE: dict[str, Any] = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "rows"},
    "id": "id",
    "prompt": {"template": "Review: {text}"},
    "target": {"format": "delta", "path": "labelled"},
}
NOTHING = Facts([], None, frozenset(), {}, None, 1)
MODELS = """
models:
  small:
    endpoints:
      - {base_url: "http://a/v1", rpm: 60, tpm: 60000}
      - {base_url: "http://b/v1", rpm: 120, tpm: 30000}
      - {base_url: "http://c/v1", weight: 0}
    price: {input_per_million: 1, output_per_million: 4}
  large:
    endpoints: [{base_url: "http://d/v1"}]
    price: {input_per_million: 10, output_per_million: 40}
"""
FILE = validate_document("models.yaml", yaml.safe_load(MODELS), ModelsFile).models
CATALOG = Catalog(Path("models.yaml"), FILE, "small")
ROUTES = [{"when": "prompt_chars < 500", "model": "small"}, {"model": "large"}]


def job(**changes: Any) -> Job:
    return Job.model_validate(BASE | changes)


def earlier(model: str, prompt: int, completion: int, run: str = "r1") -> Earlier:
    return Earlier(run, model, Decimal(9), prompt + completion, prompt, completion)


def told(
    facts: Facts = NOTHING, rows: int = 1_000, catalog: Catalog | None = CATALOG, **changes: Any
) -> EstimateDocument:
    return estimate(Asked(job(**changes), (), catalog, rows, "given"), facts)


def test_earlier_rows_at_present_prices_with_their_models() -> None:
    rows = [earlier("small", 100, 20)] * 30 + [earlier("large", 200, 30)] * 10
    found = told(Facts(rows, None, frozenset(), {}, None, 1), routes=ROUTES)
    assert found.usd is not None
    # 750 rows of 180 millionths and 250 of 3,200.
    assert found.usd.point == pytest.approx(0.935)
    assert found.usd.low < 0.935 < (found.usd.high or 0)
    assert found.tokens is not None
    assert found.tokens.point == 750 * 120 + 250 * 230
    assert (found.confidence, found.rests_on, found.prices) == (0.95, "40 earlier results of this job", "models.yaml")
    assert [(model.model, model.sampled, model.share) for model in found.models] == [
        ("large", 10, 0.25),
        ("small", 30, 0.75),
    ]
    assert found.models[1].tokens_per_row == Amount(low=120, point=120, high=120)
    # 3 calls a second or 1,500 tokens a second for three quarters of the rows, of 120 tokens each.
    assert found.time.at_least_seconds == pytest.approx(1_000 * 0.75 / 3)


def test_the_interval_of_tokens_a_row_is_students() -> None:
    rows = [earlier("small", tokens, 0) for tokens in range(1, 11)]
    (model,) = told(Facts(rows, None, frozenset(), {}, None, 1)).models
    assert model.tokens_per_row is not None
    assert model.tokens_per_row.point == 5.5
    assert model.tokens_per_row.high == pytest.approx(5.5 + 2.262 * 3.02765 / 10**0.5, abs=0.01)


def test_a_canary_of_two_models_leaves_open_how_many_rows_ask_each() -> None:
    rows = [earlier("small", 100, 20)] * 5 + [earlier("large", 100, 20)] * 5
    found = told(Facts(rows, None, frozenset({"r1"}), {}, None, 1), routes=ROUTES)
    assert found.rests_on.startswith("the canary of run r1: 10 rows")
    assert found.confidence is None
    assert found.usd is not None
    assert (found.usd.low, found.usd.high) == pytest.approx((0.18, 1.8))
    of_one = told(Facts(rows[:5], None, frozenset({"r1"}), {}, None, 1))
    assert of_one.confidence == 0.95
    assert of_one.rests_on == "the canary of run r1: 5 rows"


def test_rows_of_models_that_the_job_does_not_ask_any_more_say_nothing() -> None:
    rows = [earlier("former", 100, 20)] * 30 + [earlier("small", 10, 2)] * 3
    found = told(Facts(rows, None, frozenset(), {}, None, 1), routes=ROUTES)
    assert found.rests_on == "3 earlier results of this job"
    assert "no earlier row asked large: its rows are counted like the others" in found.notes
    assert told(Facts(rows[:30], None, frozenset(), {}, None, 1)).rests_on.startswith("the job file alone")


def test_without_any_row_there_are_bounds_by_the_job_file() -> None:
    clean = {"columns": ["text"], "max_chars": 1_000}
    found = told(clean=clean, params={"max_tokens": 50}, routes=ROUTES)
    # "Review: " is 8 bytes, a column up to 4,000; a token 2.5 to 5 bytes.
    assert found.tokens == Amount(low=1_600, point=None, high=1_000 * 4_008 / 2.5 + 50_000)
    assert found.usd is not None
    assert found.usd.low == pytest.approx(0.0016)
    assert found.usd.high == pytest.approx((1_000 * 4_008 / 2.5 * 10 + 50_000 * 40) / 1e6)
    assert (found.usd.point, found.confidence) == (None, None)
    assert "between 0.0016 and 18.0320" in "\n".join(showing.lines(found))
    open_ended = told(params={"max_tokens": 50})
    assert open_ended.tokens == Amount(low=1_600, point=None, high=None)
    assert told(catalog=None).usd is None


@pytest.mark.parametrize(
    ("prompt", "clean", "low", "high"),
    [
        ({"template": "{a}{{}}"}, {}, 2, None),
        ({"template": "{a}"}, {"columns": ["a"], "max_tokens": 11}, 0, 42),
        ({"template": "{a}"}, {"columns": ["a"], "max_tokens": 11, "max_chars": 10}, 0, 40),
        ({"template": "{a}{b}"}, {"columns": ["a"], "max_chars": 10}, 0, None),
        ({"template": "{a}{a}", "system": "S{{"}, {"columns": ["a"], "max_chars": 10}, 2, 82),
        ({"template": "{a}", "fence": ["a"]}, {"columns": ["a"], "max_chars": 10}, 0, 240),
        (
            {"messages": [{"role": "user", "content": "x{a}"}, {"role": "assistant", "content": "好"}]},
            {"columns": ["a"], "max_chars": 10},
            4,
            44,
        ),
    ],
)
def test_a_prompt_is_as_large_as_its_text_and_its_columns(
    prompt: dict[str, Any], clean: dict[str, Any], low: int, high: int | None
) -> None:
    assert bounds.prompt_bytes(job(prompt=prompt, clean=clean), ()) == (low, high)


def test_examples_are_no_templates() -> None:
    assert bounds.prompt_bytes(job(), [Example("{ a", "好}")])[0] == 8 + 3 + 4


@pytest.mark.parametrize(("tokens", "speed"), [(None, 3.0), (100.0, 3.0), (1_000.0, 1.5)])
def test_the_limits_of_a_model_are_those_of_all_its_endpoints(tokens: float | None, speed: float) -> None:
    assert pace.limit(FILE["small"], tokens) == speed
    assert pace.limit(FILE["large"], tokens) is None


def test_the_slowest_model_by_its_share_decides() -> None:
    assert pace.allowed({"a": 2.0, "b": 9.0}, {"a": 0.5, "b": 0.5}) == 4
    assert pace.allowed({"a": 2.0, "b": None}, {"a": 0.1, "b": 0.9}) == 20
    assert pace.allowed({"a": 2.0, "b": 3.0}, {}) == 5
    assert pace.allowed({"a": 2.0, "b": None}, {}) is None
    assert pace.allowed({"a": None}, {"a": 1.0}) is None


def test_time_rests_on_the_last_minutes_else_on_the_last_run_else_on_the_limits() -> None:
    busy = Facts([], None, frozenset(), dict.fromkeys(range(300), 10), None, 1)
    now = pace.time(6_000, busy, None)
    assert now.seconds is not None
    assert now.seconds.point == pytest.approx(600)
    assert "10.0 rows/s of all jobs in the last 5 minutes" in now.rests_on
    slow = pace.time(6_000, busy, 5.0)
    assert slow.seconds is not None
    assert (slow.seconds.point, slow.at_least_seconds) == (1_200, 1_200)
    before = pace.time(1_800, Facts([], None, frozenset(), {}, {"run": "r1", "rows": 100, "seconds": 30.0}, 1), None)
    assert before.seconds is not None
    assert before.seconds.point == pytest.approx(600)
    assert before.rests_on == "3.0 rows/s of the job's run r1"
    assert pace.time(600, NOTHING, 2.0).seconds is None
    assert pace.time(600, NOTHING, 2.0).at_least_seconds == 300
    assert pace.time(600, NOTHING, None).rests_on.startswith("nothing")


def test_the_number_of_rows_is_that_of_the_newest_run_and_is_explained() -> None:
    run = {
        "run": "r9",
        "read": 100,
        "rejected": 5,
        "deduplicated": 15,
        "created_at": datetime(2026, 11, 1, tzinfo=UTC),
    }
    found = rows_of(Facts([], run, frozenset(), {}, None, 1))
    assert found is not None
    assert found[0] == 80
    assert found[1].startswith("requests of run r9 of 2026-11-01 00:00: 100 rows read less 5 rejected and 15 dedup")
    assert rows_of(NOTHING) is None


def test_what_is_worth_knowing_is_noted() -> None:
    rows = [earlier("small", 100, 20)] * 5
    escalates = [{"model": "small", "escalate": {"model": "large"}}]
    facts = Facts(rows, None, frozenset(), {}, None, 0)
    notes = told(facts, routes=escalates, budget={"usd": 0.1, "tokens": 100}).notes
    assert [note.split()[0] + " " + note.split()[1] for note in notes] == [
        "no worker",
        "a run",
        "rows that",
        "that is",
        "that is",
    ]
    assert "MODELS_FILE is not set" in told(facts, catalog=None).notes[0]
