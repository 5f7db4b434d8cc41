"""Whatever bytes arrive, reading them ends in a value: one poisoned message must not stop a fleet."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.message import Prompt, Unreadable, decode

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
NAMES = st.sampled_from(
    "v id prompt messages job run model params response_format fingerprint published_at role content".split()
)
BODIES = st.dictionaries(NAMES, JSON, max_size=8)


@given(st.binary(max_size=200), st.none() | st.binary(max_size=20))
def test_any_bytes(raw: bytes, key: bytes | None) -> None:
    assert isinstance(decode(key, raw), Prompt | Unreadable)


@given(BODIES, st.none() | st.binary(max_size=20))
def test_any_json_under_the_known_names(body: dict[str, Any], key: bytes | None) -> None:
    raw = json.dumps(body).encode()
    assert isinstance(decode(key, raw), Prompt | Unreadable)


@given(st.lists(st.dictionaries(st.sampled_from(["role", "content", "name"]), JSON), min_size=1, max_size=4))
def test_any_messages(messages: list[Any]) -> None:
    assert isinstance(decode(None, json.dumps({"id": "r-1", "messages": messages}).encode()), Prompt | Unreadable)


@given(
    st.text()
    | st.datetimes().map(str)
    | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.+Z-]{0,20}", fullmatch=True)
)
def test_any_time(text: str) -> None:
    body = {"id": "r-1", "prompt": "Why?", "published_at": text}
    assert isinstance(decode(None, json.dumps(body).encode()), Prompt | Unreadable)


@pytest.mark.parametrize("depth", [100, 300, 400, 480, 500, 700, 900, 990, 1_000, 3_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("field", ["params", "response_format", "messages", "extra", "prompt", "id", "v"])
def test_json_nested_to_any_depth(depth: int, opening: str, closing: str, field: str) -> None:
    bomb = opening * depth + "1" + closing * depth
    if field == "messages":
        bomb = f'[{{"role": "user", "content": [{bomb}]}}]'
    elif field in ("params", "response_format"):
        bomb = f'{{"x": {bomb}}}'
    rest = {"id": '"r-1"', "prompt": '"Why?"', field: bomb}
    if field == "messages":
        del rest["prompt"]
    raw = "{" + ",".join(f'"{name}": {text}' for name, text in rest.items()) + "}"
    assert isinstance(decode(None, raw.encode()), Prompt | Unreadable)


def test_a_number_of_many_digits() -> None:
    raw = b'{"id": "r-1", "prompt": "Why?", "params": {"seed": ' + b"9" * 100_000 + b"}}"
    assert isinstance(decode(None, raw), Unreadable)


def test_a_body_of_five_megabytes() -> None:
    raw = json.dumps({"id": "r-1", "prompt": "\u00e9" * 2_500_000}, ensure_ascii=False).encode()
    prompt = decode(None, raw)
    assert isinstance(prompt, Prompt)
    assert prompt.length == 2_500_000


def test_an_id_of_a_megabyte() -> None:
    assert isinstance(decode(None, json.dumps({"id": "x" * 1_000_000, "prompt": "Why?"}).encode()), Unreadable)
