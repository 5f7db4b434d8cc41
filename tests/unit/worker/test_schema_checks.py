"""JSON Schema checks: compiled once, bounded in number, and harmless whatever a message brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.validation import Checks

LABEL = {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}


def test_a_value_fits_or_it_is_said_where_it_does_not() -> None:
    check = Checks().of(LABEL)
    assert check({"label": "a"}) is None
    problem = check({"label": "c"})
    assert problem is not None
    assert problem.startswith("at /label: ")
    assert (check({}) or "").startswith("at /: ")
    assert check([]) is not None


def test_without_a_schema_anything_fits() -> None:
    assert Checks().of(None)({"x": [1]}) is None


def test_a_problem_is_short_however_large_the_value() -> None:
    assert len(Checks().of({"type": "string"})(["x" * 100_000]) or "") <= 300


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": 7},
        {"$ref": "http://elsewhere/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/nowhere"},
        {"pattern": "(["},
        {"properties": 7},
        {"$schema": "http://elsewhere/meta"},
        {"minimum": "x"},
    ],
)
def test_a_schema_that_is_itself_wrong_checks_nothing_and_opens_no_address(schema: dict[str, Any]) -> None:
    assert Checks().of(schema)({"x": 1}) is None


def test_a_file_of_this_machine_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"type": "string"}')
    assert Checks().of({"$ref": (tmp_path / "secret.json").as_uri()})(7) is None


def test_a_reference_inside_the_schema_works() -> None:
    check = Checks().of({"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}})
    assert check([1]) is None
    assert check(["x"]) is not None


def test_a_schema_that_speaks_of_itself_ends() -> None:
    check = Checks().of({"properties": {"next": {"$ref": "#"}}, "required": ["v"]})
    assert check({"v": 1, "next": {"v": 2, "next": {"v": 3}}}) is None
    assert check({"v": 1, "next": {"v": 2, "next": {}}}) is not None


def test_a_schema_nested_four_hundred_deep_is_harmless() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(400):
        schema = {"properties": {"a": schema}}
    Checks().of(schema)({"a": 1})


def test_checks_are_compiled_once_and_the_memory_for_them_is_bounded() -> None:
    checks = Checks()
    assert checks.of(LABEL) is checks.of(dict(reversed(LABEL.items())))
    for nth in range(1000):
        checks.of({"const": nth})
    assert len(checks._compiled) <= 256
    assert checks.of({"const": 999})(999) is None


def test_the_schemas_in_use_are_the_ones_that_stay() -> None:
    checks = Checks()
    kept = checks.of(LABEL)
    for nth in range(1000):
        checks.of({"const": nth})
        assert checks.of(LABEL) is kept


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(
    "type properties items required enum const pattern minimum maxLength additionalProperties $ref anyOf not".split()
)


@given(st.dictionaries(WORDS, JSON), JSON)
def test_any_schema_and_any_value(schema: dict[str, Any], value: Any) -> None:
    problem = Checks().of(schema)(value)
    assert problem is None or isinstance(problem, str)


@pytest.mark.parametrize("value", [10**400, -(10**30), 1e308, "\ufffd", {"": {"": 1}}])
def test_values_at_the_edge(value: Any) -> None:
    Checks().of({"type": "object"})(value)
    Checks().of({"type": "integer", "maximum": 5})(value)
