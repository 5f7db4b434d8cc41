"""A field that is not carried out is refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from producer.arguments import Arguments
from producer.refusals import problems
from producer.settings import ProducerSettings, read_settings
from schemas.job import Job

BASE: dict[str, Any] = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "rows"},
    "id": "id",
    "prompt": {"template": "{text}"},
    "target": {"format": "delta", "path": "labelled"},
}
SETTINGS = read_settings({})
START = Arguments(Path("job.yaml"))


def refused(start: Arguments = START, settings: ProducerSettings = SETTINGS, **changes: Any) -> list[str]:
    return problems(Job.model_validate(BASE | changes), start, settings)


def test_the_smallest_job_is_carried_out() -> None:
    assert refused() == []


def test_all_that_is_carried_out_passes() -> None:
    assert (
        refused(
            source={"format": "csv", "path": "a.csv", "encoding": "GBK", "where": "a > 1", "options": {"sep": ";"}},
            clean={"columns": ["text"], "strip_html": True, "max_chars": 10, "on_overlong": "reject"},
            prompt={"system": 'Answer {{"label": ...}}.', "template": "{text}"},
            routes=[{"when": "prompt_chars < 500", "model": "small"}, {"model": "large"}],
            params={"max_tokens": 5, "stop": ["\n"]},
            budget={"usd": 5},
            canary={"rows": 10, "max_failed": 0.1, "timeout_s": 60},
            dedup=False,
            incremental=False,
        )
        == []
    )


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        (
            {"source": {"format": "jdbc", "options": {"url": "jdbc:x:y"}}},
            "source.options: jdbc needs dbtable or query",
        ),
        ({"source": {"format": "parquet", "path": "x", "encoding": "GBK"}}, "source.encoding"),
        ({"source": {"format": "csv", "path": "x", "options": {"inferSchema": True}}}, "source.options.inferSchema"),
        ({"lane": "batch"}, "lane: batch"),
        ({"lane": "auto", "deadline": "12h"}, "lane: auto"),
        ({"mode": "direct", "topic": "headrace.prompts.x"}, "topic: says nothing in mode direct"),
        ({"clean": {"strip_html": True, "min_chars": 1}}, "clean.columns: names no column, so min_chars, strip_html"),
        ({"clean": {"columns": ["text"], "on_overlong": "truncate"}}, "clean.on_overlong"),
        ({"prompt": {"template": "{text}", "system": "Say {text}"}}, "prompt.system: names {text}"),
        ({"prompt": {"template": "{text}", "system": "Say {"}}, "prompt.system: a lone {"),
        ({"prompt": {"template": "{text}", "system": " \n"}}, "prompt.system: is blank"),
        ({"routes": [{"model": "a\0b"}]}, "routes.0.model"),
        ({"topic": "elsewhere"}, "topic: no worker reads elsewhere"),
        ({"topic": "headrace.dead-letters"}, "topic: headrace.dead-letters is the topic of dead letters"),
    ],
)
def test_what_is_not_carried_out_is_named(changes: dict[str, Any], place: str) -> None:
    found = refused(**changes)

    assert len(found) == 1
    assert found[0].startswith(place)
    assert "\n" not in found[0]


def test_a_canary_is_let_go_when_the_starter_says_so() -> None:
    assert refused(Arguments(Path("job.yaml"), no_canary=True), mode="direct", canary={"rows": 10}) == []


def test_all_problems_are_told_at_once() -> None:
    assert refused(priority=3) == []
    clean = {"strip_html": True}
    assert len(refused(lane="batch", clean=clean, topic="elsewhere")) == 3


MODELS = """
models:
  small: {endpoints: [{base_url: "http://a/v1", api_key_env: NOT_SET_HERE}]}
  large: {endpoints: [{base_url: "http://b/v1"}]}
"""
ROUTES = [
    {"when": "prompt_chars < 500", "model": "small", "escalate": {"model": "huge"}},
    {"when": "prompt_chars < 900", "model": "smal"},
    {"model": "large"},
]


def test_an_alias_that_the_models_file_does_not_know_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(MODELS)
    assert refused(settings=read_settings({"MODELS_FILE": str(file)}), routes=ROUTES) == [
        f"routes.1.model: {file} knows no model smal; it knows large, small",
        f"routes.0.escalate.model: {file} knows no model huge; it knows large, small",
    ]


def test_without_the_file_it_is_said_that_nobody_has_looked(tmp_path: Path) -> None:
    job = Job.model_validate(BASE | {"routes": ROUTES})
    away = tmp_path / "not-here.yaml"
    for value, why in (("", "MODELS_FILE is not set"), (str(away), f"{away} is not on this machine")):
        settings = read_settings({"MODELS_FILE": value})
        assert refused(settings=settings, routes=ROUTES) == []
        note = settings.unchecked(job)
        assert note is not None
        assert why in note
        assert "(huge, large, smal, small)" in note
        assert settings.unchecked(Job.model_validate(BASE)) is None
