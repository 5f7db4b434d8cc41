"""The findings for people and for programs. Words from data are only text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from control.dead_letters.terminal import visible
from control.doctor.finding import Finding, Level, exit_code

_MARKS = {Level.OK: "ok", Level.WARN: "warn", Level.FAIL: "FAIL"}
_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}
_LONGEST = 400


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """One plain line a finding, then one of counts."""
    for finding in findings:
        yield f"{_MARKS[finding.level]:4}  {_text(finding)}"
    yield _sum(findings)


def screen(findings: Sequence[Finding]) -> RenderableType:
    """The same for a terminal: coloured, and folded beside its mark."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(Text(_MARKS[finding.level], style=_STYLES[finding.level]), Text(_text(finding)))
    return Group(table, Text(_sum(findings), style="bold"))


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """The same for programs, with the exit code that it makes."""
    told = [
        {"level": f.level.value, "about": f.about, "said": f.said, "next_step": f.next_step or None} for f in findings
    ]
    return {"exit_code": int(exit_code(findings)), "findings": told}


def _text(finding: Finding) -> str:
    step = f" -> {finding.next_step}" if finding.next_step else ""
    return visible(f"{finding.about}: {finding.said}{step}", _LONGEST)


def _sum(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.level for finding in findings)
    return f"{counts[Level.FAIL]} wrong, {counts[Level.WARN]} to look at, {counts[Level.OK]} well"
