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
    return _Reading(schema or {}).type(schema)


def reads_the_same(schema: Mapping[str, Any] | None) -> bool:
    """Tell whether that type holds the same, be it read from an answer's text or from what Postgres makes of it.

    Postgres puts the keys of JSON in an order of its own, which shows where a string holds JSON. One thing it changes
    shows in an integer: it spells numbers from 1e16 on out, and Spark takes `1e16` and `1.0` for NULL.
    """
    reading = _Reading(schema or {})
    reading.type(schema)
    return reading.strings_are_texts


class _Reading:
    """One schema as it is read; `strings_are_texts`: no string that was met may hold anything else as JSON."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.strings_are_texts = True

    def type(self, node: Any, inside: frozenset[str] = frozenset()) -> DataType:
        """Give the type of a part, which lies inside these references."""
        reference = node.get("$ref") if isinstance(node, Mapping) else None
        if not isinstance(node, Mapping) or (isinstance(reference, str) and reference in inside):
            return self._string(node)
        if isinstance(reference, str):
            return self.type(_find(reference, self._root), inside | {reference})
        if (alternative := _only_alternative(node)) is not None:
            return self.type(alternative, inside)
        match _named(node):
            case "object":
                return self._struct(node, inside)
            case "array":
                return ArrayType(self.type(node.get("items"), inside))
            case name:
                return _SCALARS.get(name or "") or self._string(node)

    def _struct(self, node: Mapping[str, Any], inside: frozenset[str]) -> DataType:
        properties = node.get("properties")
        if not isinstance(properties, Mapping) or not _are_columns(list(properties)):
            return self._string(node)
        return StructType([StructField(name, self.type(part, inside)) for name, part in properties.items()])

    def _string(self, node: Any) -> DataType:
        self.strings_are_texts = self.strings_are_texts and _is_text(node)
        return StringType()


def _is_text(node: Any) -> bool:
    """Tell whether values of a part are strings or null, and nothing else."""
    if not isinstance(node, Mapping):
        return False
    if _named(node) is not None:
        return _named(node) == "string"
    options = node.get("enum", [node["const"]] if "const" in node else [])
    return bool(options) and all(option is None or isinstance(option, str) for option in options)


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
