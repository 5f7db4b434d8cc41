"""The job file: what it may say, and every problem at once with its path."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from schemas.documents import read_document, validate_document
from schemas.job import Job
from schemas.settings import SettingsError

LEAST: dict[str, Any] = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "data/reviews"},
    "id": "review_id",
    "prompt": {"template": "Review: {text}"},
    "target": {"format": "delta", "path": "warehouse/reviews"},
}
CONTRACT = """
job: reviews
source: {format: parquet, path: data/reviews, where: "lang = 'zh'"}
id: review_id
clean: {columns: [text], strip_html: true, collapse_whitespace: true, normalize: NFC, min_chars: 1,
  max_chars: 20000, on_overlong: truncate}
prompt: {system: "You label reviews.", template: "Review: {text}\\nLabel:"}
routes:
  - {when: "prompt_chars < 500", model: small}
  - {model: large}
params: {max_tokens: 512, temperature: 0}
output: {json_schema: schemas/label.json}
dedup: true
incremental: true
lane: realtime
priority: 0
mode: kafka
budget: {usd: 50, tokens: 20000000}
canary: {rows: 200, max_failed: 0.05, timeout_s: 600}
target: {format: delta, path: warehouse/reviews_labelled, partition_by: [day]}
"""


def problems(**changes: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        validate_document("reviews.yaml", {**LEAST, **changes}, Job)
    return caught.value.problems


def job(**changes: Any) -> Job:
    return validate_document("reviews.yaml", {**LEAST, **changes}, Job)


def test_the_example_of_the_contract_is_a_job_file(tmp_path: Path) -> None:
    path = tmp_path / "reviews.yaml"
    path.write_text(CONTRACT)
    found = read_document(path, Job, yaml.safe_load)
    assert found.prompts_topic == "headrace.prompts.reviews"
    assert [(route.when, route.model) for route in found.routes] == [("prompt_chars < 500", "small"), (None, "large")]
    assert found.params == {"max_tokens": 512, "temperature": 0}


def test_what_is_left_out_has_its_default() -> None:
    found = job()
    assert (found.dedup, found.incremental, found.lane, found.priority, found.mode) == (
        True,
        True,
        "realtime",
        0,
        "kafka",
    )
    assert (found.canary.rows, found.canary.max_failed, found.canary.timeout_s) == (200, 0.05, 600)
    assert (found.budget.usd, found.budget.tokens, found.routes, found.params) == (None, None, [], {})
    assert (found.clean.min_chars, found.clean.max_chars, found.clean.on_overlong) == (1, None, "truncate")


def test_every_problem_is_said_at_once_with_its_path() -> None:
    found = problems(
        job="my reviews",
        source={"format": "xlsx", "path": ""},
        id="",
        clean={"max_chars": 0, "normalize": "NFX", "strip": True},
        prompt={},
        routes=[{"when": "a > 1"}],
        lane="later",
        priority=1000,
        budget={"usd": -1},
        canary={"max_failed": 2},
        target={"format": "csv"},
        tragets=1,
    )
    paths = {problem.split(":")[0] for problem in found}
    assert paths >= {
        "job",
        "source.format",
        "source.path",
        "id",
        "clean.max_chars",
        "clean.normalize",
        "clean.strip",
        "prompt",
        "routes.0.model",
        "lane",
        "priority",
        "budget.usd",
        "canary.max_failed",
        "target.format",
        "tragets",
    }
    assert "tragets: unknown name" in found
    assert "prompt: needs a template or messages, one of the two" in found


@pytest.mark.parametrize("name", sorted(LEAST))
def test_what_must_be_there_is_missed_by_name(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        validate_document("reviews.yaml", {k: v for k, v in LEAST.items() if k != name}, Job)
    assert caught.value.problems == [f"{name}: is missing"]
    assert str(caught.value) == f"reviews.yaml: {name}: is missing"


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "a/b", "é", "a\n", "x" * 201])
def test_a_job_is_named_so_that_its_topic_is_legal(name: str) -> None:
    assert [problem.split(":")[0] for problem in problems(job=name)] == ["job"]


def test_the_longest_name_still_makes_a_legal_topic() -> None:
    assert len(job(job="x" * 200).prompts_topic) <= 249
    assert job(topic="my.own").prompts_topic == "my.own"
    assert problems(topic="a b") == ["topic: is no legal topic name"]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "jsonl", "delta"])
def test_files_are_read_by_path(kind: str) -> None:
    assert any("needs a path" in problem for problem in problems(source={"format": kind}))
    assert job(source={"format": kind, "path": "x"}).source.path == "x"


@pytest.mark.parametrize("kind", ["iceberg", "table"])
def test_tables_are_read_by_name(kind: str) -> None:
    assert any("needs a table" in problem for problem in problems(source={"format": kind}))
    assert job(source={"format": kind, "table": "db.x"}).source.table == "db.x"


def test_targets_are_named_as_their_format_needs() -> None:
    assert any("needs a path" in problem for problem in problems(target={"format": "parquet"}))
    assert any("needs a table" in problem for problem in problems(target={"format": "iceberg", "path": "x"}))
    assert job(target={"format": "iceberg", "table": "db.x"}).target.table == "db.x"


def test_a_template_asks_about_a_column_and_parses() -> None:
    assert any("names no {column}" in problem for problem in problems(prompt={"template": "Label it."}))
    assert any("a lone }" in problem for problem in problems(prompt={"template": "{text} }"}))


def test_only_the_last_route_may_take_every_row() -> None:
    assert any("only the last may" in p for p in problems(routes=[{"model": "a"}, {"when": "x > 1", "model": "b"}]))
    assert job(routes=[{"model": "a"}]).routes[0].model == "a"


def test_a_route_may_ask_in_its_own_words_about_the_same_columns() -> None:
    routes = [{"when": "x > 1", "model": "a", "template": "{text}, briefly"}, {"model": "b"}]
    assert [route.template for route in job(routes=routes).routes] == ["{text}, briefly", None]
    for wrong in ("{text} {title}", "{title}"):
        told = problems(routes=[{"model": "a", "template": wrong}])
        assert told == ["whole file: routes.0.template must name the columns of prompt.template, all and no other"]
    assert any("routes.0.template: a lone {" in p for p in problems(routes=[{"model": "a", "template": "{ {text}"}]))


def test_bounds_that_leave_nothing_are_a_problem() -> None:
    assert any("max_chars is below min_chars" in p for p in problems(clean={"min_chars": 5, "max_chars": 4}))
    assert job(clean={"min_chars": 5, "max_chars": 5}).clean.max_chars == 5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("12h", 43200), ("2d", 172800), (" 1.5 h ", 5400), ("0.5d", 43200)],
)
def test_durations(text: str, seconds: float) -> None:
    assert job(lane="auto", deadline=text).deadline == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["12", "h", "-1h", "soon", "9999999999999d", "9" * 400 + "s", "0h", "0s"])
def test_a_duration_that_is_none(text: str) -> None:
    assert [problem.split(":")[0] for problem in problems(lane="auto", deadline=text)] == ["deadline"]


def test_lane_auto_and_deadline_go_together() -> None:
    assert any("go together" in problem for problem in problems(lane="auto"))
    assert any("go together" in problem for problem in problems(deadline="12h"))


@pytest.mark.parametrize("text", ["2026-01-02", ".nan", ".inf", "{1: x}", "!!binary aGk=", "!!set {a}"])
def test_params_are_json_or_a_problem(text: str) -> None:
    params = yaml.safe_load(f"stop: {text}")
    assert [problem.split(":")[0] for problem in problems(params=params)] == ["params"]


def test_params_keep_every_json_value() -> None:
    params = {"a": None, "b": [1, 2.5, True, {"c": "é"}]}
    assert job(params=params).params == params


@pytest.mark.parametrize(
    "budget", [{"usd": 0}, {"usd": ".nan"}, {"tokens": 0}, {"tokens": 1.5}, {"usd": float("nan")}]
)
def test_a_budget_is_a_positive_number(budget: dict[str, Any]) -> None:
    assert problems(budget=budget)


def test_the_json_schema_speaks_of_the_same_names() -> None:
    schema = Job.model_json_schema(by_alias=True)
    assert set(LEAST) <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    json.dumps(schema)


def test_a_job_file_cannot_be_changed_once_read() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        job().priority = 5  # type: ignore[misc]
