"""Axes: how wide the stretches of time are, where ticks stand, and how numbers are written. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_MOST_STRETCHES = 60
_MOST_LABELS = 7
_DAY = 86_400
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, _DAY)
_STEPS = (1, 2, 5, 10, 15, 20, 30, 60)


@dataclass(frozen=True, slots=True)
class Window:
    """So many stretches of `width` seconds; `first` is the number of the first since 1970 in UTC."""

    width: int
    first: int
    stretches: int

    def at(self, stretch: int) -> datetime:
        """When a stretch of the window begins."""
        return datetime.fromtimestamp((self.first + stretch) * self.width, UTC)

    def name(self, stretch: int) -> str:
        """Write when it begins, as finely as the window needs."""
        if self.width >= _DAY:
            return f"{self.at(stretch):%Y-%m-%d}"
        clock = "%H:%M:%S" if self.width < 60 else "%H:%M"
        same_day = self.at(0).date() == self.at(self.stretches - 1).date()
        return format(self.at(stretch), clock if same_day else f"%m-%d {clock}")

    def labels(self) -> Iterator[tuple[int, str]]:
        """Which stretches are named on the axis, evenly and at round times."""
        wide = [step * self.width for step in _STEPS]
        seconds = next(
            each
            for each in (*_WIDTHS, *wide)
            if each % self.width == 0 and self.stretches * self.width / each <= _MOST_LABELS
        )
        step = seconds // self.width
        for stretch in range(self.stretches):
            if (self.first + stretch) % step == 0:
                yield stretch, self.name(stretch)


def window(first: datetime, last: datetime) -> Window:
    """Cut the time between two moments into at most some sixty stretches of a round width."""
    least = (last - first).total_seconds() / (_MOST_STRETCHES - 2)
    width = next((width for width in _WIDTHS if width >= least), math.ceil(least / _DAY) * _DAY)
    start = int(first.timestamp() // width)
    return Window(width, start, int(last.timestamp() // width) - start + 1)


def ticks(top: float, most: int = 5, *, whole: bool = False) -> list[float]:
    """Choose round values from 0 to the first at or above `top`."""
    if top <= 0:
        return [0.0, 1.0]
    least = max(top, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if power * factor >= least * (1 - 1e-9))
    step = max(1.0, math.ceil(step)) if whole else step
    return [step * place for place in range(max(1, math.ceil(top / step - 1e-9)) + 1)]


def number(value: float) -> str:
    """Write a number as short as it is: 2,500 or 0.0025; from a million on with its unit."""
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M")):
        if abs(value) >= size:
            return f"{value / size:,.4g}{unit}"
    return f"{value:,.10g}"


def span(seconds: int) -> str:
    """Write the width of a stretch."""
    for size, unit in ((_DAY, "d"), (3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
