"""The JSON schema of the answers decides the type of the warehouse column."""

from __future__ import annotations

from typing import Any

import pytest

from backfill.output_type import output_type, reads_the_same

LABEL = {"type": "string", "enum": ["good", "bad"]}


@pytest.mark.parametrize(
    ("schema", "spark_type"),
    [
        (None, "string"),
        ({}, "string"),
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "boolean"),
        (LABEL, "string"),
        ({"enum": [1, "a"]}, "string"),
        ({"const": 3}, "string"),
        ({"type": "integer", "enum": [1, 2]}, "bigint"),
        ({"type": ["integer", "null"]}, "bigint"),
        ({"type": ["integer", "string"]}, "string"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "double"),
        ({"oneOf": [{"type": "number"}, {"type": "string"}]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"type": "object"}, "string"),
        ({"type": "object", "properties": {}}, "string"),
        ({"type": "object", "properties": {"a": {"type": "integer"}, "A": {}}}, "string"),
        ({"type": "object", "properties": {"a b": {"type": "integer"}}}, "string"),
        ({"type": "object", "properties": True}, "string"),
        ("no schema", "string"),
    ],
)
def test_the_rule(schema: Any, spark_type: str) -> None:
    assert output_type(schema).simpleString() == spark_type


def an(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


NODE = {"$defs": {"n": an(next={"$ref": "#/$defs/n"})}, "$ref": "#/$defs/n"}


@pytest.mark.parametrize(
    ("schema", "same"),
    [
        (
            an(label=LABEL, score={"type": "number"}, tags={"type": "array", "items": an(ok={"type": "boolean"})}),
            True,
        ),
        (an(label={"enum": ["good", "bad", None]}, note={"type": ["string", "null"]}, only={"const": "x"}), True),
        (an(label={"anyOf": [{"type": "string"}, {"type": "null"}]}), True),
        (an(label={"enum": ["good", 1]}), False),
        (an(label={"const": {"a": 1}}), False),
        (an(label={"type": ["string", "object"]}), False),
        (an(label={}), False),
        (an(label=True), False),
        (an(label={"type": "object"}), False),
        (an(label={"type": "array"}), False),
        (NODE, False),
        ({}, False),
        (None, False),
    ],
)
def test_text_and_what_postgres_makes_of_it_read_the_same_unless_a_string_may_hold_json(
    schema: Any, same: bool
) -> None:
    assert reads_the_same(schema) is same


def test_objects_nest_and_keep_their_order() -> None:
    tag = {"type": "object", "properties": {"name": {"type": "string"}, "weight": {"type": "number"}}}
    schema = {"type": "object", "properties": {"label": LABEL, "tags": {"type": "array", "items": tag}}}

    assert output_type(schema).simpleString() == (
        "struct<label:string,tags:array<struct<name:string,weight:double>>>"
    )


def test_references_inside_the_schema_are_followed_and_loops_end() -> None:
    schema = {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            },
            "a/b": {"type": "boolean"},
        },
        "type": "object",
        "properties": {
            "list": {"$ref": "#/$defs/node"},
            "flag": {"$ref": "#/$defs/a~1b"},
            "elsewhere": {"$ref": "other.json"},
            "missing": {"$ref": "#/$defs/none"},
        },
    }

    assert output_type(schema).simpleString() == (
        "struct<list:struct<value:bigint,next:string>,flag:boolean,elsewhere:string,missing:string>"
    )
