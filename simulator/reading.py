"""Reads a script from its JSON: either a whole `Script`, or every problem it has at once."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from simulator import checks
from simulator.checks import Problems, boolean, fields, integer, list_of, mapping, number, one_of, text
from simulator.limits_reading import read_limits
from simulator.script import Action, Latency, Match, Rule, Script, Trickle


class ScriptError(ValueError):
    """A script that cannot be used; `problems` has one line per fault, each with its path."""

    def __init__(self, problems: Problems) -> None:
        super().__init__("the script has problems:\n" + "\n".join(f"  {line}" for line in problems))
        self.problems = problems


def parse_script(raw: str | bytes) -> Script:
    """Reads a script from JSON text; raises `ScriptError`."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ScriptError([f"not JSON: {error}"]) from error
    return read_script(value)


def read_script(value: object) -> Script:
    """Reads a script from a list of rules or an object with `rules`, `limits` and options; raises `ScriptError`."""
    problems: Problems = []
    found = fields({"rules": value} if isinstance(value, list) else value, "", _SCRIPT, problems)
    rates, concurrency = found.pop("limits", ((), ()))
    if problems:
        raise ScriptError(problems)
    if "api_keys" in found:
        found["api_keys"] = frozenset(found["api_keys"])
    return Script(rates=rates, concurrency=concurrency, **found)


def _read_rules(value: object, path: str, problems: Problems) -> tuple[Rule, ...]:
    if not isinstance(value, list):
        problems.append(f"{path}: must be a list of rules")
        return ()
    return tuple(_read_rule(item, f"{path}[{at}]", at, problems) for at, item in enumerate(value))


def _read_rule(value: object, path: str, at: int, problems: Problems) -> Rule:
    found = fields(value, path, RULE_FIELDS, problems)
    name, match = found.pop("name", str(at)), found.pop("match", Match())
    _check_alone(found, path, problems)
    if "body_base64" in found:
        found["body"] = found.pop("body_base64")
    return Rule(name, match, Action(**found))


_ALONE = (
    ("body", "body_base64", "json", "error", "message", "content", "content_chars", "big_body", "gzip_bomb"),
    ("hang", "close"),
    ("hang", "redirect"),
    ("hang", "reset"),
    ("chunked", "wrong_content_length"),
    ("gzip", "gzip_bomb", "big_body"),
    ("append", "gzip_bomb", "big_body"),
)


def _check_alone(found: dict[str, Any], path: str, problems: Problems) -> None:
    for group in _ALONE:
        used = [name for name in group if _is_used(name, found)]
        if len(used) > 1:
            problems.append(f"{path}: {' and '.join(used)} exclude each other, keep one")
    if "close_after_bytes" in found and found.get("close") != "mid_body":
        problems.append(f"{path}.close_after_bytes: needs close: mid_body")


def _is_used(name: str, found: dict[str, Any]) -> bool:
    null_counts = name == "json"
    return name in found and found[name] is not False and (null_counts or found[name] is not None)


def _read_match(value: object, path: str, problems: Problems) -> Match:
    found = fields(value, path, MATCH_FIELDS, problems)
    if found.get("until_s", checks.MOST) <= found.get("after_s", -1.0):
        problems.append(f"{path}: until_s must be above after_s")
    for name in ("ids", "attempts"):
        if name in found:
            found[name] = frozenset(found[name])
    return Match(**found)


def _read_latency(value: object, path: str, problems: Problems) -> Latency:
    if not isinstance(value, dict):
        fixed = number()(value, path, problems)
        return Latency("uniform", fixed, fixed)
    names = ("p50", "p99") if "p50" in value or "p99" in value else ("min", "max")
    least = 0.001 if names[0] == "p50" else 0.0
    found = fields(value, path, dict.fromkeys(names, number(least)), problems)
    low, high = found.get(names[0], least), found.get(names[1], least)
    if len(found) < 2 or low > high:
        problems.append(f"{path}: needs {names[0]} and {names[1]}, the first not above the second")
    return Latency("uniform" if names[0] == "min" else "lognormal", low, high)


def _read_trickle(value: object, path: str, problems: Problems) -> Trickle:
    table = {"bytes": integer(1), "every_ms": number(), "from": one_of("body", "head")}
    found = fields(value, path, table, problems)
    if not {"bytes", "every_ms"} <= found.keys():
        problems.append(f"{path}: needs bytes and every_ms")
    return Trickle(found.get("bytes", 1), found.get("every_ms", 0.0), found.get("from", "body"))


def _read_body(value: object, path: str, problems: Problems) -> bytes:
    return text(value, path, problems).encode("utf-8", "surrogatepass")


def _read_base64(value: object, path: str, problems: Problems) -> bytes:
    try:
        return base64.b64decode(text(value, path, problems), validate=True)
    except binascii.Error as error:
        problems.append(f"{path}: not base64: {error}")
        return b""


def _read_chunked(value: object, path: str, problems: Problems) -> int | None:
    if isinstance(value, bool):
        return 1024 if value else None
    size: int = integer(1)(value, path, problems)
    return size


def _read_seed(value: object, path: str, problems: Problems) -> str:
    return str(value) if isinstance(value, int) else text(value, path, problems)


def _read_omit(value: object, path: str, problems: Problems) -> frozenset[str]:
    return frozenset(list_of(text)(value, path, problems))


MATCH_FIELDS = {
    "ids": list_of(text),
    "id_prefix": text,
    "prompt_contains": text,
    "prompt_chars_over": integer(),
    "probability": number(0.0, 1.0),
    "attempts": list_of(integer(1)),
    "model": text,
    "param": text,
    "after_s": number(),
    "until_s": number(),
    "times": integer(1),
}

RULE_FIELDS = {
    "name": text,
    "match": _read_match,
    "latency_ms": _read_latency,
    "status": integer(200, 599),
    "headers": checks.mapping_of(checks.or_null(text)),
    "error": mapping,
    "body": _read_body,
    "body_base64": _read_base64,
    "json": checks.anything,
    "append": text,
    "content_type": text,
    "content": text,
    "content_chars": integer(0, 1 << 28),
    "finish_reason": checks.or_null(text),
    "usage": checks.anything,
    "message": mapping,
    "omit": _read_omit,
    "max_tokens": one_of("truncate", "ignore"),
    "close": one_of("before_request", "after_request", "mid_headers", "mid_body"),
    "close_after_bytes": integer(),
    "reset": boolean,
    "hang": boolean,
    "trickle": _read_trickle,
    "chunked": _read_chunked,
    "gzip": boolean,
    "gzip_bomb": integer(1),
    "big_body": integer(1),
    "wrong_content_length": integer(),
    "redirect": text,
    "event_stream": boolean,
    "abort_on_disconnect": boolean,
    "bill": boolean,
}

_SCRIPT = {
    "rules": _read_rules,
    "limits": read_limits,
    "api_keys": list_of(text),
    "models": list_of(text),
    "idle_timeout_s": number(0.001),
    "seed": _read_seed,
}
