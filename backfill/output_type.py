"""From a JSON schema to the Spark type of `llm_output`, by a written rule.

| JSON schema                                          | Spark type                          |
| ---------------------------------------------------- | ----------------------------------- |
| object with properties                               | struct, fields in the schema's order |
| array                                                | array of its items' type            |
| string                                               | string                              |
| integer                                              | bigint                              |
| number                                               | double                              |
| boolean                                              | boolean                             |
| enum, const, several types, no type, anything else   | string: text as it is, the rest as JSON |

`null` beside one other type (`["string", "null"]`, `anyOf`) only says that the value may be missing, and so may
every value. A local `$ref` is followed; one that leads back to itself is a string, and so is an object whose
property names a warehouse column cannot have: empty, told apart by case alone, or holding one of ` ,;{}()=`, a tab
or a line break.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_SCALARS: dict[str, DataType] = {"integer": LongType(), "number": DoubleType(), "boolean": BooleanType()}
_NOT_IN_A_NAME = frozenset(" ,;{}()\n\t=")


def output_type(schema: Mapping[str, Any] | None) -> DataType:
    """Give the type of `llm_output` for the schema of the answers; string without one."""
    return _type(schema, schema or {}, frozenset())


def _type(node: Any, root: Mapping[str, Any], inside: frozenset[str]) -> DataType:
    if not isinstance(node, Mapping):
        return StringType()
    if isinstance(reference := node.get("$ref"), str):
        return StringType() if reference in inside else _type(_find(reference, root), root, inside | {reference})
    if (alternative := _only_alternative(node)) is not None:
        return _type(alternative, root, inside)
    match _named(node):
        case "object":
            return _struct(node.get("properties"), root, inside)
        case "array":
            return ArrayType(_type(node.get("items"), root, inside))
        case name:
            return _SCALARS.get(name or "", StringType())


def _struct(properties: Any, root: Mapping[str, Any], inside: frozenset[str]) -> DataType:
    if not isinstance(properties, Mapping) or not _are_columns(list(properties)):
        return StringType()
    return StructType([StructField(name, _type(node, root, inside)) for name, node in properties.items()])


def _are_columns(names: list[str]) -> bool:
    if not names or any(not name or _NOT_IN_A_NAME.intersection(name) for name in names):
        return False
    return len({name.lower() for name in names}) == len(names)


def _named(node: Mapping[str, Any]) -> str | None:
    """The one type that is named, `null` left out; None if there are several or none."""
    named = node.get("type")
    names = [name for name in (named if isinstance(named, list) else [named]) if name != "null"]
    return names[0] if len(names) == 1 and isinstance(names[0], str) else None


def _only_alternative(node: Mapping[str, Any]) -> Any:
    for word in ("anyOf", "oneOf"):
        if isinstance(options := node.get(word), list):
            real = [option for option in options if option != {"type": "null"}]
            return real[0] if len(real) == 1 else {}
    return None


def _find(reference: str, root: Mapping[str, Any]) -> Any:
    """Follow `#/a/b` from the root; anything else, or a path that is not there, is None."""
    if not reference.startswith("#"):
        return None
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
