"""Text and JSON that every later station accepts."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.text import clean_json, clean_text, sorted_json

ANY_TEXT = st.text(st.characters(exclude_categories=[]))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def refused(char: str) -> bool:
    return char == "\0" or 0xD800 <= ord(char) <= 0xDFFF


@given(ANY_TEXT)
def test_what_stays_is_identical_and_what_is_replaced_is_one_for_one(text: str) -> None:
    cleaned, changed = clean_text(text)
    assert cleaned == "".join("\ufffd" if refused(char) else char for char in text)
    assert changed == any(map(refused, text))
    cleaned.encode("utf-8")
    assert clean_text(cleaned) == (cleaned, False)


@pytest.mark.parametrize(
    "text", ["", "plain", "\u202e right to left", "\x1b[31mred", "a\u0301", "\ufffd", "\U0010ffff", "\r\n\t\x01\x7f"]
)
def test_what_is_merely_odd_is_left_alone(text: str) -> None:
    assert clean_text(text) == (text, False)


def test_each_half_of_a_broken_pair_is_replaced() -> None:
    assert clean_text("a\ud83d\ud83db\udd8a") == ("a\ufffd\ufffdb\ufffd", True)


def test_a_megabyte_of_text_is_identical() -> None:
    text = "žluťoučký \u4f60\u597d " * 60_000
    assert clean_text(text) == (text, False)


@given(ANY_JSON)
def test_clean_json_is_json_for_everybody(value: Any) -> None:
    cleaned, changed = clean_json(value)
    text = json.dumps(cleaned, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    assert "\\u0000" not in text
    assert clean_json(cleaned) == (cleaned, False)
    if not changed:
        assert cleaned == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_json_number_becomes_null(number: float) -> None:
    assert clean_json({"a": [1, number]}) == ({"a": [1, None]}, True)


def test_keys_are_cleaned_too() -> None:
    assert clean_json({"a\0": {"\ud800": 1}}) == ({"a\ufffd": {"\ufffd": 1}}, True)


def test_booleans_and_whole_numbers_stay_what_they_are() -> None:
    cleaned, _ = clean_json([True, 1, 1.0, None, 10**30])
    assert [type(item) for item in cleaned] == [bool, int, float, type(None), int]


def test_sorted_json_is_compact_sorted_and_unescaped() -> None:
    assert sorted_json({"b": [1, {"d": None, "c": True}], "a": "é🦊"}) == '{"a":"é🦊","b":[1,{"c":true,"d":null}]}'
