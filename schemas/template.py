"""The template language: `{column}` is a column's text, `{{` and `}}` are literal braces, nothing else is syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """A place that a column's text fills; what the text holds is never read as a template again."""

    name: str


def parse(template: str) -> list[Literal | Column]:
    """Split a template into literals and columns; raises `ValueError` naming the character that is wrong."""
    parts: list[Literal | Column] = []
    at = 0
    for token in _TOKEN.finditer(template):
        parts.append(Literal(template[at : token.start()]))
        parts.append(_part(token))
        at = token.end()
    parts.append(Literal(template[at:]))
    return _joined(parts)


def columns(template: str) -> set[str]:
    """Name the columns that a template reads."""
    return {part.name for part in parse(template) if isinstance(part, Column)}


def _part(token: re.Match[str]) -> Literal | Column:
    match token.group():
        case "{{":
            return Literal("{")
        case "}}":
            return Literal("}")
        case "{" | "}":
            raise ValueError(f"a lone {token.group()} at character {token.start() + 1}: write it twice")
    if not (name := token.group(1).strip()):
        raise ValueError(f"an empty {{}} at character {token.start() + 1}: name a column")
    return Column(name)


def _joined(parts: list[Literal | Column]) -> list[Literal | Column]:
    joined: list[Literal | Column] = []
    for part in parts:
        if isinstance(part, Literal) and joined and isinstance(joined[-1], Literal):
            joined[-1] = Literal(joined[-1].text + part.text)
        elif part != Literal(""):
            joined.append(part)
    return joined
