from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.schema_answers import UnsupportedSchemaError, fill

SEEDS = [f"seed {at}" for at in range(30)]
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name", "children"],
        }
    },
    "$ref": "#/$defs/node",
}
LINKED = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "n": {"type": "integer"}},
    "required": ["next"],
}


def _bounds(low: str, high: str) -> st.SearchStrategy[dict[str, int]]:
    return st.tuples(st.integers(-50, 50), st.integers(0, 50)).map(lambda pair: {low: pair[0], high: sum(pair)})


def _sizes(low: str, high: str) -> st.SearchStrategy[dict[str, int]]:
    return st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda pair: {low: pair[0], high: sum(pair)})


def _typed(kind: str, *extras: st.SearchStrategy[dict[str, int]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(st.just({}), *extras).map(lambda extra: {"type": kind, **extra})


LEAVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    _typed("string", _sizes("minLength", "maxLength")),
    _typed("integer", _bounds("minimum", "maximum"), st.just({"exclusiveMinimum": 3, "multipleOf": 4})),
    _typed("number", _bounds("minimum", "maximum"), st.just({"minimum": 0, "exclusiveMaximum": 1})),
    _typed("boolean"),
    _typed("null"),
    st.lists(st.one_of(st.integers(), st.text()), min_size=1).map(lambda values: {"enum": values}),
    st.text().map(lambda value: {"const": value}),
    st.just({"type": ["string", "null"]}),
    st.sampled_from(["date", "date-time", "email", "uuid", "ipv4", "time", "hostname"]).map(
        lambda name: {"type": "string", "format": name}
    ),
)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties][:2],
        "additionalProperties": False,
    }


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.text(max_size=5), inner, max_size=4).map(_object),
        st.tuples(inner, _sizes("minItems", "maxItems")).map(lambda p: {"type": "array", "items": p[0], **p[1]}),
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    ),
    max_leaves=8,
)


def _valid(schema: dict[str, Any], value: object) -> bool:
    return jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(value)


@given(SCHEMAS, st.text())
def test_a_filled_schema_is_valid_and_repeats(schema: dict[str, Any], seed: str) -> None:
    value = fill(schema, seed)
    assert _valid(schema, value), value
    assert fill(schema, seed) == value


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        LINKED,
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "uniqueItems": True},
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2},
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"required": ["b"]},
            ]
        },
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        {"type": "string", "pattern": "^x-\\d$", "examples": ["x-1"]},
        {"definitions": {"a/b": {"type": "integer"}}, "$ref": "#/definitions/a~1b"},
        {"properties": {"a": {"type": "integer"}}},
        {"type": "number", "multipleOf": 0.5, "minimum": 1, "maximum": 3},
        {"maximum": -1000},
        True,
        {},
    ],
)
def test_kinds_of_schemas_are_filled_validly_by_any_seed(schema: Any) -> None:
    for seed in SEEDS:
        assert _valid(schema, fill(schema, seed))


def test_every_value_of_an_enum_is_chosen_by_some_seed() -> None:
    assert {fill({"enum": ["a", "b", "c"]}, seed) for seed in SEEDS} == {"a", "b", "c"}


def test_a_nullable_type_prefers_a_value_and_a_branch_the_first() -> None:
    assert isinstance(fill({"type": ["null", "string"]}, "s"), str)
    assert isinstance(fill({"anyOf": [{"type": "string"}, {"type": "null"}]}, "s"), str)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"type": "thing"}, "/: unknown type 'thing'"),
        ({"$ref": "#/$defs/none"}, "/: #/$defs/none is not a definition of this schema"),
        ({"$ref": "https://example.com/schema"}, "is not a definition of this schema"),
        ({"type": "object", "properties": {"a": False}}, "/a: the schema false allows no value"),
        ({"type": "integer", "minimum": 5, "maximum": 4}, "/: no whole number between the bounds"),
        ({"type": "number", "minimum": 5, "maximum": 4}, "/: the bounds leave no number"),
        ({"type": "string", "pattern": "^[a-z]{5}-[0-9]{7}$"}, "/: no example found for the pattern"),
        ({"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True}, "/: too few different items"),
        ({"$ref": "#"}, "/: not a schema, or one that never ends"),
        ({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}, "one that never ends"),
        ({"type": "object", "properties": 5}, "the schema is not well formed"),
        ({"type": "array", "minItems": "x"}, "the schema is not well formed"),
        ({"type": "string", "pattern": "("}, "the schema is not well formed"),
    ],
)
def test_a_schema_that_cannot_be_filled_is_refused_with_its_place(schema: Any, complaint: str) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        fill(schema, "seed")
    assert complaint in str(caught.value)
