"""Checks of the single values of a script: each reads one value and notes what is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

Problems = list[str]
Check = Callable[[object, str, Problems], Any]

MOST = 1e15
"""No number in a script is larger: seconds, bytes and counts alike."""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse(value: object, path: str, wanted: str, problems: Problems) -> None:
    problems.append(f"{path}: must be {wanted}, got {_shown(value)}")


def _range_words(noun: str, low: float, high: float) -> str:
    return f"{noun} of at least {low:g}" if high == MOST else f"{noun} from {low:g} to {high:g}"


def integer(low: int = 0, high: float = MOST) -> Check:
    """A check for a whole number within bounds."""

    def check(value: object, path: str, problems: Problems) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        _refuse(value, path, _range_words("a whole number", low, high), problems)
        return low

    return check


def number(low: float = 0.0, high: float = MOST) -> Check:
    """A check for a number within bounds."""

    def check(value: object, path: str, problems: Problems) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
            return float(value)
        _refuse(value, path, _range_words("a number", low, high), problems)
        return low

    return check


def text(value: object, path: str, problems: Problems) -> str:
    """Any string."""
    if isinstance(value, str):
        return value
    _refuse(value, path, "a string", problems)
    return ""


def boolean(value: object, path: str, problems: Problems) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    _refuse(value, path, "true or false", problems)
    return False


def anything(value: object, _path: str, _problems: Problems) -> object:
    """Any JSON value, null included."""
    return value


def one_of(*names: str) -> Check:
    """A check for one of a few words."""

    def check(value: object, path: str, problems: Problems) -> str:
        if isinstance(value, str) and value in names:
            return value
        _refuse(value, path, "one of " + ", ".join(names), problems)
        return names[0]

    return check


def list_of(check_item: Check) -> Check:
    """A check for a list whose items all pass one check; gives a tuple."""

    def check(value: object, path: str, problems: Problems) -> tuple[Any, ...]:
        if isinstance(value, list):
            return tuple(check_item(item, f"{path}[{at}]", problems) for at, item in enumerate(value))
        _refuse(value, path, "a list", problems)
        return ()

    return check


def mapping(value: object, path: str, problems: Problems) -> dict[str, Any]:
    """A JSON object with any content."""
    if isinstance(value, dict):
        return value
    _refuse(value, path, "an object", problems)
    return {}


def mapping_of(check_item: Check) -> Check:
    """A check for an object whose values all pass one check; gives a tuple of pairs."""

    def check(value: object, path: str, problems: Problems) -> tuple[tuple[str, Any], ...]:
        items = mapping(value, path, problems).items()
        return tuple((name, check_item(item, f"{path}.{name}", problems)) for name, item in items)

    return check


def or_null(check_value: Check) -> Check:
    """A check that also lets null through, as None."""

    def check(value: object, path: str, problems: Problems) -> object:
        return None if value is None else check_value(value, path, problems)

    return check


def fields(value: object, path: str, table: Mapping[str, Check], problems: Problems) -> dict[str, Any]:
    """Reads an object field by field; an unknown field is a problem that names the nearest known one."""
    found: dict[str, Any] = {}
    for name, item in mapping(value, path, problems).items():
        where = f"{path}.{name}" if path else name
        if name in table:
            found[name] = table[name](item, where, problems)
        else:
            problems.append(f"{where}: unknown field{_hint(name, table)}")
    return found


def _hint(name: str, table: Mapping[str, Check]) -> str:
    near = difflib.get_close_matches(name, table, n=1)
    return f", did you mean {near[0]}?" if near else "; known are " + ", ".join(sorted(table))
