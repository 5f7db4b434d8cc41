"""Structured answers: JSON out of the model's text, held against the schema that was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from schemas.statuses import Reason
from schemas.text import clean_json
from worker.core.outcome import Kind, Outcome

# Says what is wrong with a value, or None.
Check = Callable[[Any], str | None]
_FENCE = re.compile(r"\A```[A-Za-z]*\s*\n(.*)\n\s*```\Z", re.S)


def wants_json(response_format: Mapping[str, Any] | None) -> bool:
    """Whether a request asks for a JSON answer."""
    return response_format is not None and response_format.get("type") in ("json_object", "json_schema")


def schema_of(response_format: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The JSON Schema inside a response format, if it holds one."""
    inner = response_format.get("json_schema") if response_format else None
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def checked(outcome: Outcome, check: Check) -> tuple[Outcome, str]:
    """Hold a successful answer against the check.

    Returns the outcome with the parsed value in its answer and "", or an unfit one with its text kept and what is
    wrong with it. A fenced block around the whole answer is taken off; NaN and infinities become null.
    """
    if outcome.kind is not Kind.ANSWERED or outcome.answer is None:
        return outcome, ""
    try:
        value, changed = clean_json(json.loads(_unfenced(outcome.answer.text)))
        problem = check(value)
    except (ValueError, RecursionError):
        value, changed, problem = None, False, "the answer is not JSON"
    if problem:
        return replace(outcome, kind=Kind.UNFIT, reason=Reason.INVALID_OUTPUT, code="invalid_output"), problem
    answer = replace(outcome.answer, value=value, sanitised=outcome.answer.sanitised or changed)
    return replace(outcome, answer=answer), ""


def asked_again(messages: list[Mapping[str, Any]], text: str, problem: str) -> list[Mapping[str, Any]]:
    """The conversation with the invalid answer and its error, for the one repetition."""
    request = f"Your answer is not valid: {problem}. Answer again with valid JSON only."
    return [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": request}]


def _unfenced(text: str) -> str:
    fenced = _FENCE.match(text.strip())
    return fenced[1] if fenced else text
