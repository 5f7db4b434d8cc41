"""A comparison of two runs for people."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from control.dead_letters.terminal import visible
from control.report.difference import Cell, Cost, Difference

_NONE = "(none)"


def show(console: Console, difference: Difference) -> None:
    """Print the counts, the cost, and for each field what became of its labels."""
    counts = difference.counts
    lines: list[RenderableType] = [
        Text(f"{visible(difference.job)}: run {visible(difference.run)} against {visible(difference.against)}"),
        Text(
            f"rows: {counts.rows_before:,} before, {counts.rows_after:,} after: "
            f"{counts.added:,} added, {counts.gone:,} gone"
        ),
        Text(f"asked otherwise: {counts.asked_otherwise:,} rows, {counts.requests_otherwise:,} requests"),
        Text(
            f"answers: {counts.changed:,} rows ({counts.changed_requests:,} requests) changed, {counts.same:,} the "
            f"same, {counts.not_compared:,} without an answer in one of the runs"
        ),
        Text(cost_line(difference.cost)),
    ]
    console.print(Group(*lines, *(_matrix(name, cells) for name, cells in difference.labels.items())))


def cost_line(cost: Cost) -> str:
    """Tell what the change cost, as a range where nobody knows exactly."""
    high = "unknown" if cost.unknown_calls else f"{cost.high_usd:f} USD"
    usd = f"{cost.low_usd:f} USD" if not cost.unknown_calls and cost.low_usd == cost.high_usd else None
    spent = usd or f"{cost.low_usd:f} USD to {high}"
    return f"cost: {cost.calls:,} calls, {spent}, {cost.low_tokens:,} to {cost.high_tokens:,} tokens"


def _matrix(name: str, cells: list[Cell]) -> Table:
    table = Table("before", "after", "rows", "requests", title=Text(visible(name)), title_justify="left")
    for cell in sorted(cells, key=lambda cell: (cell.old == cell.new, -cell.rows)):
        style = "dim" if cell.old == cell.new else ""
        table.add_row(_label(cell.old), _label(cell.new), f"{cell.rows:,}", f"{cell.requests:,}", style=style)
    return table


def _label(label: str | None) -> Text:
    return Text(_NONE if label is None else visible(label))
