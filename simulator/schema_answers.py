"""Fills a JSON Schema with values: the same seed gives the same value, another seed mostly another one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from simulator import draws

_DEEP = 6
_DEEPEST = 40
_FORMATS = {
    "date": "2026-01-{:02d}",
    "date-time": "2026-01-{:02d}T08:00:00Z",
    "time": "08:00:{:02d}Z",
    "duration": "PT{:02d}M",
    "email": "name{:02d}@example.com",
    "hostname": "host{:02d}.example.com",
    "ipv4": "192.0.2.{:d}",
    "ipv6": "2001:db8::{:d}",
    "uuid": "00000000-0000-4000-8000-0000000000{:02d}",
    "uri": "https://example.com/{:02d}",
}
_CANDIDATES = ("a", "A", "0", "abc", "ABC", "word", "123", "12345", "2026-01-02", "a1", "A-1", "a_b", "1.5")


_MALFORMED = (TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, re.error)


class UnsupportedSchemaError(ValueError):
    """A schema this endpoint cannot answer; the text names the place."""


class _Filler:
    def __init__(self, root: object, seed: str) -> None:
        self._root, self._seed = root, seed

    def value(self, schema: object, path: str, depth: int = 0) -> Any:
        if isinstance(schema, bool) or schema == {}:
            return self._free(schema, path)
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            raise UnsupportedSchemaError(f"{path or '/'}: not a schema, or one that never ends")
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][self._pick(path, len(schema["enum"]))]
        if "$ref" in schema:
            rest = {name: part for name, part in schema.items() if name != "$ref"}
            return self.value({**self._resolve(schema["$ref"], path), **rest}, path, depth + 1)
        return self._composed(schema, path, depth)

    def _free(self, schema: object, path: str) -> str:
        if schema is False:
            raise UnsupportedSchemaError(f"{path or '/'}: the schema false allows no value")
        return self._word(path)

    def _composed(self, schema: Mapping[str, Any], path: str, depth: int) -> Any:
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            rest = {name: part for name, part in schema.items() if name not in ("anyOf", "oneOf")}
            return self.value(_merged(rest, self._branch(branches, depth)), path, depth + 1)
        if schema.get("allOf"):
            whole: dict[str, Any] = {name: part for name, part in schema.items() if name != "allOf"}
            for part in schema["allOf"]:
                whole = _merged(whole, self._resolved(part, path))
            return self.value(whole, path, depth + 1)
        return self._typed(schema, path, depth)

    def _branch(self, branches: list[Any], depth: int) -> Any:
        if depth <= _DEEP:
            return branches[0]
        plain = [branch for branch in branches if "$ref" not in branch]
        return plain[-1] if plain else branches[-1]

    def _resolved(self, schema: Any, path: str) -> Any:
        return self._resolve(schema["$ref"], path) if isinstance(schema, Mapping) and "$ref" in schema else schema

    def _resolve(self, ref: str, path: str) -> Mapping[str, Any]:
        found: Any = self._root
        for step in ref.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        if not ref.startswith("#") or not isinstance(found, Mapping):
            raise UnsupportedSchemaError(f"{path or '/'}: {ref} is not a definition of this schema")
        return found

    def _typed(self, schema: Mapping[str, Any], path: str, depth: int) -> Any:
        kind = schema.get("type") or _guessed_type(schema)
        if isinstance(kind, list):
            named = [name for name in kind if name != "null"]
            kind = named[0] if named and not (depth > _DEEP and "null" in kind) else "null"
        fillers: dict[str, Callable[[Mapping[str, Any], str, int], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "number": self._number,
            "integer": self._integer,
            "boolean": lambda _schema, where, _depth: bool(self._pick(where, 2)),
            "null": lambda *_: None,
        }
        if kind not in fillers:
            raise UnsupportedSchemaError(f"{path or '/'}: unknown type {kind!r}")
        return fillers[kind](schema, path, depth)

    def _object(self, schema: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = list(schema.get("required", ()))
        names = required if depth > _DEEP else [*properties, *(name for name in required if name not in properties)]
        return {name: self.value(properties.get(name, {}), f"{path}/{name}", depth + 1) for name in names}

    def _array(self, schema: Mapping[str, Any], path: str, depth: int) -> list[Any]:
        low, high = schema.get("minItems", 0), schema.get("maxItems")
        most = low + 2 if high is None else min(high, low + 2)
        least = min(max(low, 1), most)
        count = low if depth > _DEEP else least + self._pick(path + "#", most - least + 1)
        fixed = schema.get("prefixItems", [])
        items = [*fixed[:count], *[schema.get("items", {})] * (count - len(fixed))]
        filled = [self.value(item, f"{path}/{at}", depth + 1) for at, item in enumerate(items)]
        return self._unique(filled, items, path, depth, low) if schema.get("uniqueItems") else filled

    def _unique(self, filled: list[Any], items: list[Any], path: str, depth: int, low: int) -> list[Any]:
        unique: list[Any] = []
        for at, item in enumerate(items):
            tries = (filled[at], *(self.value(item, f"{path}/{at}/{n}", depth + 1) for n in range(64)))
            unique += [value for value in tries if value not in unique][:1]
        if len(unique) < low:
            raise UnsupportedSchemaError(f"{path or '/'}: too few different items for uniqueItems")
        return unique

    def _string(self, schema: Mapping[str, Any], path: str, _depth: int) -> str:
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]].format(10 + self._pick(path, 18))
        if "pattern" in schema:
            return _matching(schema, path)
        low, high = schema.get("minLength", 0), schema.get("maxLength")
        word = self._word(path)
        word = (word * (low // len(word) + 1))[:low] if len(word) < low else word
        return word if high is None else word[:high]

    def _integer(self, schema: Mapping[str, Any], path: str, _depth: int) -> int:
        step = schema.get("multipleOf", 1)
        low, high = _bounds(schema, 1)
        first, last = math.ceil(low / step), math.floor(high / step)
        if first > last:
            raise UnsupportedSchemaError(f"{path or '/'}: no whole number between the bounds")
        return int((first + self._pick(path, last - first + 1)) * step)

    def _number(self, schema: Mapping[str, Any], path: str, depth: int) -> float:
        if "multipleOf" in schema:
            return self._integer(schema, path, depth)
        low, high = _bounds(schema, 0)
        if low > high:
            raise UnsupportedSchemaError(f"{path or '/'}: the bounds leave no number")
        return draws.uniform(draws.unit(self._seed, path), low, high)

    def _word(self, path: str) -> str:
        return f"answer {draws.whole(self._seed, path):016x}"

    def _pick(self, path: str, count: int) -> int:
        return draws.whole(self._seed, path) % count


def fill(schema: object, seed: str) -> Any:
    """A value that is valid against `schema`; raises `UnsupportedSchemaError` where none can be made."""
    try:
        return _Filler(schema, seed).value(schema, "")
    except _MALFORMED as error:
        raise UnsupportedSchemaError("the schema is not well formed") from error


def _guessed_type(schema: Mapping[str, Any]) -> str:
    hints = {"properties": "object", "required": "object", "items": "array", "minimum": "number", "maximum": "number"}
    return next((kind for name, kind in hints.items() if name in schema), "string")


def _merged(left: Mapping[str, Any], right: Any) -> dict[str, Any]:
    if not isinstance(right, Mapping):
        return dict(left)
    whole = {**left, **right}
    if "properties" in left and "properties" in right:
        whole["properties"] = {**left["properties"], **right["properties"]}
    if "required" in left and "required" in right:
        whole["required"] = [*left["required"], *right["required"]]
    return whole


def _matching(schema: Mapping[str, Any], path: str) -> str:
    tries = [*schema.get("examples", ()), schema.get("default"), *_CANDIDATES]
    tries += [letter * count for letter in "aA0" for count in range(1, 33)]
    for text in tries:
        if isinstance(text, str) and re.search(schema["pattern"], text) and _fits(text, schema):
            return text
    raise UnsupportedSchemaError(f"{path or '/'}: no example found for the pattern; give one in examples")


def _fits(text: str, schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text)))


def _bounds(schema: Mapping[str, Any], margin: float) -> tuple[float, float]:
    lows = [schema[name] for name in ("minimum",) if name in schema]
    highs = [schema[name] for name in ("maximum",) if name in schema]
    if "exclusiveMinimum" in schema:
        lows.append(schema["exclusiveMinimum"] + margin)
    if "exclusiveMaximum" in schema:
        highs.append(schema["exclusiveMaximum"] - margin)
    low = max(lows) if lows else (min(highs) - 100 if highs else 0)
    return low, min(highs) if highs else low + 100
