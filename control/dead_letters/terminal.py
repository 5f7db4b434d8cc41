"""Text that others wrote, made harmless for a terminal, and the ways of printing: a table, plain lines, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_LONGEST_CELL = 128


def visible(text: str, most: int | None = None) -> str:
    r"""Spell out what a terminal would obey or hide (`\x1b`, `\u202e`), and cut what is longer than `most`.

    What Python calls printable stays; a backslash is doubled nowhere, so the result is for reading, not for parsing.
    """
    cut = text if most is None or len(text) <= most else text[:most]
    shown = cut if cut.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in cut)
    return shown if cut is text else f"{shown}... ({len(text) - len(cut)} more characters)"


def line(values: Iterable[object]) -> str:
    """One plain line of values apart by tabs; what is absent is a dash."""
    return "\t".join(_cell(value) for value in values)


def as_json(value: Any) -> str:
    """One line of JSON in ASCII, so that nothing in it reaches a terminal raw."""
    return json.dumps(value, default=_plain)


def table(console: Console, titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; a cell is its text and never markup."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        made.add_column(title, overflow="fold")
    for row in rows:
        made.add_row(*(Text(_cell(value)) for value in row))
    console.print(made)


def pairs(console: Console, title: str, values: Mapping[str, object], most: int = 2_000) -> None:
    """Print names and values below a title, one a line; absent values are left out."""
    console.print(Text(title, style="bold"), soft_wrap=True)
    for name, value in values.items():
        if value is not None:
            console.print(Text(f"  {visible(name, _LONGEST_CELL)}: {visible(_text(value), most)}"), soft_wrap=True)


def console() -> Console:
    """Standard output as it is now: markup, emoji codes and guesses at numbers are off."""
    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else visible(_text(value), _LONGEST_CELL)


def _text(value: object) -> str:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else str(value)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
