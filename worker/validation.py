"""JSON Schema checks, compiled once per schema."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from schemas.text import sorted_json
from worker.core.output import Check

# Schemas come with messages, so their number is the senders' choice and the memory is ours.
_MOST = 256
_PROBLEM_CHARS = 300


class Checks:
    """Gives the check of a schema; a schema that is itself wrong checks nothing but that there is JSON."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, Check] = OrderedDict()

    def of(self, schema: Mapping[str, Any] | None) -> Check:
        """Compile a schema, or take it from the last 256."""
        if schema is None:
            return _anything
        key = sorted_json(schema)
        check = self._compiled.pop(key, None) or _compile(schema)
        self._compiled[key] = check
        if len(self._compiled) > _MOST:
            self._compiled.popitem(last=False)
        return check


def _anything(_value: object) -> str | None:
    return None


def _refuse(uri: str) -> Any:
    """Refuse what a `$ref` points to: a message must not make the worker open an address of its sender's choice."""
    raise ValueError(f"a reference to another document: {uri[:100]}")


def _compile(schema: Mapping[str, Any]) -> Check:
    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return _anything

    def check(value: object) -> str | None:
        error = next(iter(validator.iter_errors(value)), None)
        if error is None:
            return None
        path = "/".join(str(part) for part in error.instance_path)
        return f"at /{path}: {error.message}"[:_PROBLEM_CHARS]

    return check
