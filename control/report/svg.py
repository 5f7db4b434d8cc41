"""Charts as inline SVG, from numbers to text: stacked columns and lines over time, bars by name.

Colours are classes (`s0`, `s1`, …) of the page's style sheet, so that one chart serves light, dark and paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from control.report.markup import Markup, element, joined
from control.report.scale import Window, number, ticks

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 34, 30
_ROW, _NAMES, _VALUES = 26, 170, 130
_LONGEST_NAME = 24


@dataclass(frozen=True, slots=True)
class Caption:
    """What a chart is called and what it shows, for those who do not see it; `key` is unique in the page."""

    key: str
    title: str
    description: str


@dataclass(frozen=True, slots=True)
class Series:
    """One value for each stretch of the window; None where nothing is known."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Bar:
    """A named value, how it is written, and as a lighter piece how far it may reach."""

    name: str
    value: float
    said: str
    reaches: float | None = None

    @property
    def end(self) -> float:
        """How long the whole bar is."""
        return self.value if self.reaches is None else self.reaches


@dataclass(frozen=True, slots=True)
class _Plot:
    window: Window
    marks: Sequence[float]

    def x(self, stretch: float) -> float:
        return round(_LEFT + stretch * (_WIDTH - _LEFT - _RIGHT) / self.window.stretches, 2)

    def y(self, value: float) -> float:
        return round(_HEIGHT - _BOTTOM - value / self.marks[-1] * (_HEIGHT - _TOP - _BOTTOM), 2)


def columns(caption: Caption, window: Window, series: Sequence[Series], unit: str) -> Markup:
    """Stack the series in one column a stretch; None counts as nothing."""
    sums = [sum(one.values[stretch] or 0 for one in series) for stretch in range(window.stretches)]
    plot = _Plot(window, ticks(max(sums, default=0), whole=True))
    parts = [part for stretch in range(window.stretches) for part in _column(plot, series, stretch)]
    return _drawn(caption, _HEIGHT, [*_axes(plot, unit), *_legend(series), *parts])


def lines(caption: Caption, window: Window, series: Sequence[Series], unit: str) -> Markup:
    """Draw one line a series, broken where nothing is known."""
    top = max((value for one in series for value in one.values if value is not None), default=0)
    plot = _Plot(window, ticks(top))
    drawn = [element("path", d=_path(plot, one.values), class_=f"line s{place}") for place, one in enumerate(series)]
    return _drawn(caption, _HEIGHT, [*_axes(plot, unit), *_legend(series), *drawn])


def bars(caption: Caption, rows: Sequence[Bar], unit: str, *, whole: bool = True) -> Markup:
    """Draw one bar a row, from the left, each with its name and its value."""
    marks = ticks(max((row.end for row in rows), default=0), 4, whole=whole)
    scale = (_WIDTH - _NAMES - _VALUES) / marks[-1]
    foot = len(rows) * _ROW
    parts = [*_ruler(marks, scale, foot)]
    for place, row in enumerate(rows):
        parts += _bar(row, scale, place * _ROW)
    parts.append(element("text", unit, x=_WIDTH, y=foot + 18, class_="end"))
    return _drawn(caption, foot + 24, parts)


def _drawn(caption: Caption, height: int, parts: Sequence[Markup]) -> Markup:
    title = element("title", caption.title, id=f"{caption.key}-title")
    description = element("desc", caption.description, id=f"{caption.key}-desc")
    names = f"{caption.key}-title {caption.key}-desc"
    return element(
        "svg", title, description, *parts, role="img", aria_labelledby=names, viewBox=f"0 0 {_WIDTH} {height}"
    )


def _axes(plot: _Plot, unit: str) -> Iterator[Markup]:
    yield element("text", unit, x=0, y=14)
    for mark in plot.marks:
        y = plot.y(mark)
        yield element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid")
        yield element("text", number(mark), x=_LEFT - 8, y=y + 4, class_="end")
    for stretch, name in plot.window.labels():
        x = plot.x(stretch)
        yield element("line", x1=x, x2=x, y1=_HEIGHT - _BOTTOM, y2=_HEIGHT - _BOTTOM + 5, class_="grid")
        yield element("text", name, x=x, y=_HEIGHT - 10, class_="middle")


def _legend(series: Sequence[Series]) -> Iterator[Markup]:
    for place, one in enumerate(series):
        x = _WIDTH - _RIGHT - 96 * (len(series) - place)
        yield element("rect", x=x, y=4, width=12, height=12, rx=2, class_=f"s{place}")
        yield element("text", one.name, x=x + 18, y=14)


def _column(plot: _Plot, series: Sequence[Series], stretch: int) -> Iterator[Markup]:
    left, width = plot.x(stretch), plot.x(stretch + 1) - plot.x(stretch)
    base = 0.0
    for place, one in enumerate(series):
        value = one.values[stretch] or 0
        if value:
            top = plot.y(base + value)
            said = f"{plot.window.name(stretch)}: {number(value)} {one.name}"
            yield element(
                "rect",
                element("title", said),
                x=left,
                y=top,
                width=round(max(0.5, width * 0.86), 2),
                height=round(plot.y(base) - top, 2),
                class_=f"s{place}",
            )
        base += value


def _path(plot: _Plot, values: Sequence[float | None]) -> str:
    """A point without neighbours is a line of no length: its round ends make it a dot."""
    steps: list[str] = []
    for stretch, value in enumerate(values):
        if value is not None:
            goes_on = stretch > 0 and values[stretch - 1] is not None
            steps.append(f"{'L' if goes_on else 'M'}{plot.x(stretch + 0.5)} {plot.y(value)}{'' if goes_on else 'h0'}")
    return "".join(steps)


def _ruler(marks: Sequence[float], scale: float, foot: int) -> Iterator[Markup]:
    for mark in marks:
        x = round(_NAMES + mark * scale, 2)
        yield element("line", x1=x, x2=x, y1=0, y2=foot, class_="grid")
        yield element("text", number(mark), x=x, y=foot + 18, class_="middle")


def _bar(row: Bar, scale: float, top: int) -> list[Markup]:
    short = row.name if len(row.name) <= _LONGEST_NAME else f"{row.name[: _LONGEST_NAME - 1]}…"
    name = element("text", element("title", row.name), short, x=_NAMES - 8, y=top + 17, class_="end")
    boxes = [_box(row.value, scale, top, "s0")]
    if row.end > row.value:
        boxes.insert(0, _box(row.end, scale, top, "s0 light"))
    said = element("text", row.said, x=round(_NAMES + row.end * scale + 6, 2), y=top + 17)
    return [name, joined(boxes), said]


def _box(value: float, scale: float, top: int, kind: str) -> Markup:
    return element("rect", x=_NAMES, y=top + 4, width=round(value * scale, 2), height=_ROW - 8, rx=2, class_=kind)
