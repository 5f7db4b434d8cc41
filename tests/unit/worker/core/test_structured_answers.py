"""Answers that were asked to be JSON: read, held against the schema, asked for once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.statuses import Billed, Reason
from worker.core.outcome import Answer, Kind, Outcome
from worker.core.output import asked_again, checked, schema_of, wants_json

SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}}


def answered(text: str, **fields: Any) -> Outcome:
    return Outcome(Kind.ANSWERED, None, Billed.YES, 200, Answer(text, "stop", prompt_tokens=7, **fields))


def anything(_value: Any) -> str | None:
    return None


def nothing(_value: Any) -> str | None:
    return "at /label: 7 is not a string"


@pytest.mark.parametrize(
    ("response_format", "wants", "schema"),
    [
        (None, False, None),
        ({}, False, None),
        ({"type": "text"}, False, None),
        ({"type": "json_object"}, True, None),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, True, SCHEMA),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, True, None),
        ({"type": "json_schema", "json_schema": "x"}, True, None),
        ({"type": "json_schema", "json_schema": {"schema": [1]}}, True, None),
        ({"type": ["json_object"]}, False, None),
    ],
)
def test_who_asks_for_json_and_in_which_shape(response_format: Any, wants: bool, schema: Any) -> None:
    assert wants_json(response_format) is wants
    assert schema_of(response_format) == schema


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"label": "a"}', {"label": "a"}),
        (' \n{"label": "a"}\n', {"label": "a"}),
        ('```json\n{"label": "a"}\n```', {"label": "a"}),
        ('```\n{"label": "a"}\n```', {"label": "a"}),
        ("[1, 2.5, null]", [1, 2.5, None]),
        ("7", 7),
        ('"a"', "a"),
        ("true", True),
    ],
)
def test_json_in_its_usual_wrappings(text: str, value: Any) -> None:
    outcome, problem = checked(answered(text), anything)
    assert (outcome.kind, problem) == (Kind.ANSWERED, "")
    assert outcome.answer is not None
    assert (outcome.answer.value, outcome.answer.text, outcome.answer.sanitised) == (value, text, False)


@pytest.mark.parametrize(
    "text", ["", "yes", "{", "{'a': 1}", 'Here: {"a": 1}', '{"a": 1} and more', "[" * 100_000, "9" * 5000]
)
def test_what_is_no_json_keeps_its_text_and_its_bill(text: str) -> None:
    outcome, problem = checked(answered(text), anything)
    assert problem == "the answer is not JSON"
    assert (outcome.kind, outcome.reason, outcome.billed, outcome.code) == (
        Kind.UNFIT,
        Reason.INVALID_OUTPUT,
        Billed.YES,
        "invalid_output",
    )
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.answer.prompt_tokens, outcome.answer.value) == (text, 7, None)


def test_what_does_not_fit_the_schema_says_what_is_wrong() -> None:
    outcome, problem = checked(answered('{"label": 7}'), nothing)
    assert (outcome.kind, outcome.reason) == (Kind.UNFIT, Reason.INVALID_OUTPUT)
    assert problem == "at /label: 7 is not a string"


def test_numbers_that_are_no_json_become_null_before_they_are_checked() -> None:
    seen: list[Any] = []

    def check(value: Any) -> str | None:
        seen.append(value)
        return None

    outcome, _ = checked(answered('{"a": NaN, "b": [1e999, -Infinity], "c": "\\ud800\\u0000"}'), check)
    assert outcome.answer is not None
    assert outcome.answer.value == {"a": None, "b": [None, None], "c": "\ufffd\ufffd"}
    assert seen == [outcome.answer.value]
    assert outcome.answer.sanitised


def test_text_that_was_already_replaced_stays_marked() -> None:
    outcome, _ = checked(answered("1", sanitised=True), anything)
    assert outcome.answer is not None
    assert outcome.answer.sanitised


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.ANSWERED])
def test_only_a_success_is_checked(kind: Kind) -> None:
    outcome = Outcome(kind, Reason.TRUNCATED, answer=Answer("{"))
    assert checked(outcome, nothing) == (outcome, "")


def test_the_second_question_holds_the_first_the_answer_and_its_fault() -> None:
    first: list[Mapping[str, Any]] = [{"role": "user", "content": "Label it."}]
    again = asked_again(first, "no", "the answer is not JSON")
    assert again[:2] == [*first, {"role": "assistant", "content": "no"}]
    assert again[2]["role"] == "user"
    assert "the answer is not JSON" in again[2]["content"]
    assert first == [{"role": "user", "content": "Label it."}]


@given(st.text())
def test_any_text_is_json_or_not(text: str) -> None:
    outcome, problem = checked(answered(text), anything)
    assert (outcome.kind is Kind.ANSWERED) == (problem == "")
