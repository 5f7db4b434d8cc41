"""The committed dashboards as tests need them: panels, expressions, selectors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser

FOLDER = Path(__file__).parents[1] / "deploy" / "grafana" / "dashboards"
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
# What Grafana fills in by itself.
_BUILT_IN = {"__rate_interval": "1m", "__interval": "15s", "__range": "3h"}


@dataclass(frozen=True)
class Target:
    """One expression of one panel, as it stands in the file."""

    board: str
    panel: str
    expr: str

    def __str__(self) -> str:
        return f"{self.board}: {self.panel}: {self.expr}"

    def filled(self, **values: str) -> str:
        """The expression with its variables filled in: as with All chosen, unless named."""
        return _VARIABLE.sub(lambda found: {**_BUILT_IN, **values}.get(found[1], ".+"), self.expr)

    @property
    def variables(self) -> set[str]:
        """The variables it uses."""
        return set(_VARIABLE.findall(self.expr))


@dataclass(frozen=True)
class Selector:
    """One series that an expression asks for, the labels it is chosen by, and the functions around it."""

    name: str
    matchers: tuple[tuple[str, str], ...]
    functions: frozenset[str]


def boards() -> dict[str, dict[str, Any]]:
    """Every dashboard by the name of its file."""
    return {path.stem: json.loads(path.read_text(encoding="utf8")) for path in sorted(FOLDER.glob("*.json"))}


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every panel, those in folded rows too; rows are none."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels") or []
        else:
            yield panel


def targets() -> list[Target]:
    """Every expression of every panel."""
    return [
        Target(name, panel["title"], target["expr"])
        for name, board in boards().items()
        for panel in panels(board)
        for target in panel["targets"]
    ]


def selectors(expr: str) -> list[Selector]:
    """The series that an expression asks for."""
    found: list[Selector] = []
    calls: list[str] = []

    def enter(node: Any) -> None:
        if isinstance(node, promql_parser.Call):
            calls.append(node.func.name)
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(_selector(node.vector_selector, {*calls, "[]"}))
        if isinstance(node, promql_parser.VectorSelector):
            found.append(_selector(node, {*calls}))

    def leave(node: Any) -> None:
        if isinstance(node, promql_parser.Call):
            calls.pop()

    promql_parser.walk(promql_parser.parse(expr), enter, leave)
    return found


def _selector(node: promql_parser.VectorSelector, functions: set[str]) -> Selector:
    matchers = tuple((matcher.name, matcher.value) for matcher in node.matchers.matchers)
    return Selector(node.name or "", matchers, frozenset(functions))
