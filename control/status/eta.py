"""How fast rows end, and when the last one will: a rate with its spread, from what ended in which second."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

WINDOW_SECONDS = 300
# Fewer stretches say nothing of their spread.
_STRETCHES = 10
# Twice the error of the mean: 95 of 100 steady runs end within it.
_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows a second and the error of that mean, over so many seconds."""

    mean: float
    error: float
    seconds: int


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds until the last row ends; without a latest the rate may as well be nothing."""

    seconds: float
    earliest: float
    latest: float | None


def rate(ended: Mapping[int, int], window: int = WINDOW_SECONDS) -> Rate | None:
    """Take the rate from the rows that ended so many whole seconds ago; None before two full seconds are known.

    A run younger than the window is measured since its first row: the second in which that ended is not full, so it
    is left out.
    """
    known = [second for second, rows in ended.items() if rows and 0 <= second < window]
    seconds = max(known, default=0)
    if seconds >= window - 1:
        seconds = window
    if seconds < 2:
        return None
    counts = [ended.get(second, 0) for second in range(seconds)]
    return Rate(sum(counts) / seconds, _error(counts), seconds)


def eta(left: int | None, rate: Rate | None) -> Eta | None:
    """Say when what is left will have ended at this rate; None while that cannot be told."""
    if left == 0:
        return Eta(0.0, 0.0, 0.0)
    if left is None or rate is None or rate.mean <= 0:
        return None
    slow, fast = rate.mean - _ERRORS * rate.error, rate.mean + _ERRORS * rate.error
    return Eta(left / rate.mean, left / fast, left / slow if slow > 0 else None)


def _error(counts: list[int]) -> float:
    """The error of the mean, never below that of rows which end by chance: results are written in batches."""
    size = max(1, math.ceil(len(counts) / _STRETCHES))
    whole = [counts[start : start + size] for start in range(0, len(counts) - size + 1, size)]
    rates = [sum(part) / size for part in whole]
    by_chance = math.sqrt(max(1, sum(counts))) / len(counts)
    if len(rates) < 2:
        return by_chance
    mean = sum(rates) / len(rates)
    variance = sum((one - mean) ** 2 for one in rates) / (len(rates) - 1)
    return max(by_chance, math.sqrt(variance / len(rates)))
