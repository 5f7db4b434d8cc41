"""The fingerprint, computed here a second time from the words of its definition."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.fingerprint import fingerprint
from schemas.message import Prompt, decode

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.none() | st.dictionaries(TEXT, JSON, min_size=1, max_size=3)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system"]), "content": TEXT | st.lists(JSON, min_size=1)}
    ),
    min_size=1,
    max_size=4,
)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def compact(value: Any) -> str:
    """Sorted compact JSON, written out by hand."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact(name)}:{compact(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def defined(model: str | None, messages: list[dict[str, Any]], params: Any, response_format: Any) -> str:
    parts = [sha("default" if model is None else model)]
    for message in messages:
        content = message["content"]
        parts.append(sha(message["role"]))
        parts.append(sha(content if isinstance(content, str) else compact(content)))
    parts.append(sha("null" if params is None else compact(params)))
    parts.append(sha("null" if response_format is None else compact(response_format)))
    return sha(":".join(parts))


@given(st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1), MESSAGES, OBJECTS, OBJECTS)
def test_it_is_what_its_definition_says(
    model: str | None, messages: list[dict[str, Any]], params: Any, response_format: Any
) -> None:
    assert fingerprint(model, messages, params, response_format) == defined(model, messages, params, response_format)


def test_one_value_is_pinned_so_that_a_stored_one_stays_good() -> None:
    assert fingerprint(None, [{"role": "user", "content": "Why?"}]) == (
        "360f12f9196836b277327d55b1e067e23af1b23b936015d7797e4a8a0503c07a"
    )


@given(MESSAGES, OBJECTS)
def test_the_order_of_names_does_not_count(messages: list[dict[str, Any]], params: dict[str, Any] | None) -> None:
    turned = None if params is None else dict(reversed(params.items()))
    assert fingerprint("m", messages, params) == fingerprint("m", messages, turned)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"model": "small"}, {"model": "large"}),
        ({"model": None}, {"model": "small"}),
        ({"messages": [("user", "a"), ("user", "b")]}, {"messages": [("user", "b"), ("user", "a")]}),
        ({"messages": [("user", "a")]}, {"messages": [("system", "a")]}),
        ({"messages": [("user", "a"), ("user", "b")]}, {"messages": [("user", "a:user:b")]}),
        ({"params": {"temperature": 0}}, {"params": {"temperature": 1}}),
        ({"params": {"temperature": 0}}, {"response_format": {"temperature": 0}}),
        ({"params": {"a": 1}}, {"params": None}),
    ],
)
def test_whatever_shapes_the_request_counts(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert of(**one) != of(**other)


def of(messages: Any = (("user", "a"),), model: str | None = "m", **rest: Any) -> str:
    return fingerprint(model, [{"role": role, "content": content} for role, content in messages], **rest)


def test_no_name_is_the_name_default_and_nothing_given_is_null() -> None:
    chat = [{"role": "user", "content": "Why?"}]
    assert fingerprint(None, chat) == fingerprint("default", chat)
    assert fingerprint(None, chat, {}, {}) == fingerprint(None, chat, None, None)


def test_the_reader_of_messages_computes_it_where_it_is_absent() -> None:
    raw = json.dumps({"id": "r-1", "prompt": "Why?", "model": "small", "params": {"b": 1, "a": [2]}})
    read = decode(None, raw.encode())
    assert isinstance(read, Prompt)
    asked = [{"role": "user", "content": "Why?"}]
    assert read.fingerprint == defined("small", asked, {"a": [2], "b": 1}, None)
