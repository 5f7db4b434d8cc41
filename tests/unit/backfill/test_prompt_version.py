"""One word says which prompt an answer was given to."""

from __future__ import annotations

import re
from typing import Any

import pytest

from schemas.examples import Example
from schemas.job import Job
from schemas.prompt_version import prompt_version

BASE: dict[str, Any] = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "reviews"},
    "id": "review_id",
    "prompt": {"template": "Review: {text}"},
    "target": {"format": "delta", "path": "labelled"},
}


def version(changes: dict[str, Any] | None = None, schema: dict[str, Any] | None = None) -> str:
    return prompt_version(Job.model_validate(BASE | (changes or {})), schema)


def test_it_is_short_and_the_same_every_time() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", version())
    assert version() == "fe013e2eb06e44f4"


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": {"template": "Review: {text}\n"}},
        {"prompt": {"template": "Review: {text}", "system": "Label."}},
        {"clean": {"columns": ["text"], "strip_html": True}},
        {"prompt": {"template": "Review: {text}", "fence": ["text"]}},
        {"prompt": {"messages": [{"role": "user", "content": "Review: {text}"}]}},
        {"clean": {"columns": ["text"], "max_tokens": 50}},
        {"routes": [{"model": "small"}]},
        {"routes": [{"model": "small", "escalate": {"model": "large"}}]},
        {"routes": [{"model": "small", "template": "{text}?"}]},
        {"params": {"temperature": 0}},
    ],
)
def test_whatever_shapes_the_request_changes_it(changes: dict[str, Any]) -> None:
    assert version(changes) != version()


def test_the_output_schema_counts_by_its_content() -> None:
    schema = {"type": "object", "properties": {"label": {"type": "string"}}}
    assert len({version(), version(schema=schema), version(schema=schema | {"required": ["label"]})}) == 3
    assert version(schema=schema) == version({"output": {"json_schema": "elsewhere.json"}}, schema)


def test_examples_count_by_their_content() -> None:
    job = Job.model_validate(BASE | {"prompt": {"template": "Review: {text}", "examples": "a.jsonl"}})
    elsewhere = Job.model_validate(BASE | {"prompt": {"template": "Review: {text}", "examples": "b.jsonl"}})
    shown = [Example("bad!", "bad")]

    assert prompt_version(job, examples=shown) == prompt_version(elsewhere, examples=shown)
    assert len({version(), *(prompt_version(job, examples=found) for found in (shown, shown * 2))}) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"rules": [{"name": "a", "when": "text > ''"}], "language": {"scripts": ["Latin"]}},
        {"source": {"format": "csv", "path": "other.csv", "where": "a > 1"}},
        {"target": {"format": "parquet", "path": "other"}},
        {"priority": 5, "budget": {"usd": 3}, "dedup": False, "incremental": False},
        {"clean": {"on_overlong": "truncate"}},
    ],
)
def test_what_does_not_shape_the_request_leaves_it(changes: dict[str, Any]) -> None:
    assert version(changes) == version()
