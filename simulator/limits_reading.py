"""Reads the `limits` of a script."""

from __future__ import annotations

from typing import Any

from simulator.checks import Problems, fields, integer, number, one_of, text
from simulator.script import ConcurrencyLimit, RateLimit, RetryAfter

Limits = tuple[tuple[RateLimit, ...], tuple[ConcurrencyLimit, ...]]
_KINDS = ("requests_per_minute", "tokens_per_minute", "max_concurrent")


def read_limits(value: object, path: str, problems: Problems) -> Limits:
    """Reads a list of limits into rate limits and concurrency limits."""
    rates: list[RateLimit] = []
    concurrency: list[ConcurrencyLimit] = []
    if not isinstance(value, list):
        problems.append(f"{path}: must be a list of limits")
        return (), ()
    for at, item in enumerate(value):
        limit = _read_limit(item, f"{path}[{at}]", problems)
        if isinstance(limit, RateLimit):
            rates.append(limit)
        elif isinstance(limit, ConcurrencyLimit):
            concurrency.append(limit)
    _check_one_gate_per_call(concurrency, path, problems)
    return tuple(rates), tuple(concurrency)


def _check_one_gate_per_call(limits: list[ConcurrencyLimit], path: str, problems: Problems) -> None:
    models = [limit.model for limit in limits]
    if len(set(models)) < len(models) or (None in models and len(models) > 1):
        problems.append(f"{path}: give one max_concurrent for all calls, or one for each model")


def _read_limit(value: object, path: str, problems: Problems) -> RateLimit | ConcurrencyLimit | None:
    if not isinstance(value, dict):
        problems.append(f"{path}: must be an object")
        return None
    kinds = [kind for kind in _KINDS if kind in value]
    if len(kinds) != 1:
        problems.append(f"{path}: needs exactly one of {', '.join(_KINDS)}")
        return None
    if kinds[0] == "max_concurrent":
        return _read_concurrency(value, path, problems)
    return _read_rate(value, path, kinds[0], problems)


def _read_rate(value: object, path: str, kind: str, problems: Problems) -> RateLimit:
    found = fields(value, path, _RATE | {kind: number(1)}, problems)
    amount, retry_after = found.pop(kind), _pop_retry_after(found, None)
    if "burst" in found and found.get("window") != "bucket":
        problems.append(f"{path}.burst: needs window: bucket")
    if "count" in found and kind != "tokens_per_minute":
        problems.append(f"{path}.count: needs tokens_per_minute")
    return RateLimit("tokens" if kind[0] == "t" else "requests", amount, retry_after=retry_after, **found)


def _read_concurrency(value: object, path: str, problems: Problems) -> ConcurrencyLimit:
    found = fields(value, path, _CONCURRENCY, problems)
    retry_after = _pop_retry_after(found, 1.0)
    return ConcurrencyLimit(found.pop("max_concurrent"), retry_after=retry_after, **found)


def _pop_retry_after(found: dict[str, Any], fixed_s: float | None) -> RetryAfter:
    return RetryAfter(found.pop("retry_after", "s"), found.pop("retry_after_s", fixed_s))


def _read_schedule(value: object, path: str, problems: Problems) -> tuple[tuple[float, int], ...]:
    if not isinstance(value, list):
        return ((0.0, integer(0)(value, path, problems)),)
    steps = [_read_step(item, f"{path}[{at}]", problems) for at, item in enumerate(value)]
    times = [at_s for at_s, _ in steps]
    if times[:1] != [0.0] or times != sorted(set(times)):
        problems.append(f"{path}: at_s must begin at 0 and rise")
    return tuple(steps)


def _read_step(value: object, path: str, problems: Problems) -> tuple[float, int]:
    found = fields(value, path, {"at_s": number(), "max": integer()}, problems)
    if len(found) < 2:
        problems.append(f"{path}: needs at_s and max")
    return found.get("at_s", 0.0), found.get("max", 0)


_ANSWER = {
    "model": text,
    "retry_after": one_of("s", "fraction", "ms", "date", "none"),
    "retry_after_s": number(),
}
_RATE = _ANSWER | {
    "window": one_of("sliding", "fixed", "bucket"),
    "window_s": number(0.001),
    "burst": number(1),
    "count": one_of("reserved", "prompt"),
}
_CONCURRENCY = _ANSWER | {"max_concurrent": _read_schedule, "over": one_of("429", "queue", "503")}
