"""The settings for people: plain lines anywhere, a table on a terminal. Words from outside are only text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from control.config.document import ConfigDocument, Origin, Setting
from control.dead_letters.terminal import visible

_TITLES = ("setting", "value", "origin", "")
_LONGEST = 400
_NOTHING = "-"


def lines(document: ConfigDocument) -> Iterator[str]:
    """One line a setting: name, value, origin and what is to be said of it, apart by tabs; then a count."""
    for setting in document.settings:
        yield "\t".join(cell for cell in _cells(setting) if cell)
    yield from _rest(document)


def screen(document: ConfigDocument) -> RenderableType:
    """The same as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _TITLES:
        table.add_column(title, overflow="fold")
    for setting in document.settings:
        *cells, said = _cells(setting)
        style = "dim" if setting.origin is Origin.DEFAULT else ""
        table.add_row(
            *(Text(cell, style=style) for cell in cells), Text(said, style="red" if setting.problem else "")
        )
    return Group(table, *(Text(line) for line in _rest(document)))


def _cells(setting: Setting) -> tuple[str, str, str, str]:
    file = f" {setting.file}" if setting.file else ""
    origin = {Origin.FILE: f"{setting.name}_FILE", Origin.MODELS_FILE: "MODELS_FILE"}.get(setting.origin)
    said = [f"PROBLEM: {setting.problem}"] if setting.problem else []
    said += [setting.note] if setting.note else []
    cells = (setting.name, setting.value or _NOTHING, (origin or setting.origin.value) + file, "; ".join(said))
    name, value, whence, words = (visible(cell, _LONGEST) for cell in cells)
    return name, value, whence, words


def _rest(document: ConfigDocument) -> Iterator[str]:
    yield from (f"PROBLEM: {visible(problem, _LONGEST)}" for problem in document.problems)
    wrong = len(document.problems) + sum(setting.problem is not None for setting in document.settings)
    yield f"{len(document.settings)} settings" + (f", {wrong} problems" if wrong else "")
