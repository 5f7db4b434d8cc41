"""A batch as a relation in a statement: what differs from row to row as arrays, what is the same for all once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def relation(types: Mapping[str, str], columns: Mapping[str, Sequence[Any]], prefix: str = "") -> str:
    """Write the columns, named and typed, as a sub-select with the row's number `nth`.

    Each value of an array costs about 0.2 us of CPU on its way, and most columns of a batch hold one value. The first
    column is the one that always differs. The values travel by `parameters`.
    """
    names = list(types)
    varying = [name for name in names if name == names[0] or not _is_constant(columns[name])]
    arrays = ", ".join(f"%({prefix}{name})b::{types[name]}[]" for name in varying)
    constants = "".join(f", %({prefix}{name})b::{types[name]} AS {name}" for name in names if name not in varying)
    # Names and types are the statement's own; values are bound.
    return f"SELECT u.*{constants} FROM unnest({arrays}) WITH ORDINALITY AS u({', '.join(varying)}, nth)"  # noqa: S608


def parameters(types: Mapping[str, str], columns: Mapping[str, Sequence[Any]], prefix: str = "") -> dict[str, Any]:
    """The values that `relation` names for the same columns."""
    first = next(iter(types))
    return {
        prefix + name: columns[name][0] if name != first and _is_constant(columns[name]) else list(columns[name])
        for name in types
    }


def _is_constant(column: Sequence[Any]) -> bool:
    return len(column) > 0 and column.count(column[0]) == len(column)
