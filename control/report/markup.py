"""HTML that cannot be forgotten to be escaped: whatever is not markup already is text."""

from __future__ import annotations

import html
from collections.abc import Iterable

from control.dead_letters.terminal import visible

_VOID = frozenset({"meta"})


class Markup(str):
    """Text that is HTML: made here, never of data."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float) -> Markup:
    """Make one element; children that are no markup, and all values, are escaped.

    An underline in an attribute's name is a hyphen, one at its end is dropped: `class_`, `aria_labelledby`.
    """
    said = "".join(f' {_name(key)}="{html.escape(str(value))}"' for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{said}>")
    return Markup(f"<{name}{said}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Markup:
    """Put parts side by side, those escaped that are no markup."""
    return Markup("".join(child if isinstance(child, Markup) else html.escape(visible(child)) for child in children))


def table(key: str, headers: Iterable[str], rows: Iterable[Iterable[str]]) -> Markup:
    """Make a table of text; cells that begin with a digit have figures of one width."""
    head = element("tr", *(element("th", header, scope="col") for header in headers))
    body = [element("tr", *(_cell(cell) for cell in row)) for row in rows]
    whole = element("table", element("thead", head), element("tbody", *body), id=key)
    return element("div", whole, class_="wide")


def _cell(text: str) -> Markup:
    return element("td", text, class_="number") if text[:1].isdigit() else element("td", text)


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
