"""How a demo talks: stages with their time, a bar on a terminal, plain lines elsewhere, ten rows at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from deploy.demo.run import Summary

_ROWS = 10
_TEXT_CHARS = 44
# A pipe or a file has no width of its own; the tables want this much.
_PLAIN_WIDTH = 120


class Voice:
    """Speaks to people on one console."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = _PLAIN_WIDTH

    def say(self, line: str) -> None:
        """One line."""
        self._console.print(escape(line), soft_wrap=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage with its time."""
        began = time.monotonic()
        self._console.print(f"[bold]{escape(name)}[/] ...")
        yield
        self._console.print(f"  done in {time.monotonic() - began:.1f} s")

    @contextmanager
    def bar(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar on a terminal, a line at each tenth elsewhere."""
        if self._console.is_terminal:
            columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            with Progress(*columns, console=self._console) as progress:
                task = progress.add_task(name, total=total)
                yield lambda done: progress.update(task, completed=done)
        else:
            with self.stage(name):
                yield self._tenths(total)

    def _tenths(self, total: int) -> Callable[[int], None]:
        said = 0

        def update(done: int) -> None:
            nonlocal said
            if total and done * 10 // total > said:
                said = done * 10 // total
                self.say(f"  {done:,} of {total:,}")

        return update

    def show(self, summary: Summary) -> None:
        """The counts of each stage and ten rows of the joined table."""
        self._console.print(_counts(summary))
        self._console.print(_sample(summary.rows))

    def point(self, lines: list[str]) -> None:
        """Where to look next."""
        self._console.print("\n[bold]Where to look next[/]")
        for line in lines:
            self.say(f"  {line}")


def _counts(summary: Summary) -> Table:
    made, back = summary.produced, summary.backfilled
    rejected = ", ".join(f"{n:,} {reason}" for reason, n in sorted(made.get("rejected_by_reason", {}).items()))
    failed = ", ".join(f"{n:,} {reason}" for reason, n in summary.failures.items())
    rate = summary.calls.calls / summary.calls.seconds if summary.calls.seconds else 0.0
    table = Table(title="Counts", title_justify="left")
    table.add_column("stage")
    table.add_column("rows", justify="right")
    table.add_column("")
    rows: list[tuple[str, Any, str]] = [
        ("source", summary.source_rows, ""),
        ("read by the producer", made["read"], "= published + rejected + deduplicated + skipped"),
        ("  published to Kafka", made["published"], "acknowledged by the broker"),
        ("  rejected", made["rejected"], rejected),
        ("  deduplicated", made["deduplicated"], "ask what another row asks"),
        ("  skipped", made["skipped"], "had their answer before"),
        ("ended by the workers", summary.ended, f"{rate:,.0f} calls a second" if rate else ""),
        ("  failed", summary.failed, failed),
        ("calls made", summary.calls.calls, f"{summary.calls.maybe_billed} of them may have been billed in vain"),
        ("tokens", summary.calls.prompt_tokens + summary.calls.completion_tokens, "as the model reports them"),
        ("joined into the table", back["joined"], f"{back['written']:,} rows written by this run"),
        ("rows in the table", len(summary.rows), ""),
    ]
    if summary.checked is not None:
        rows.append(("labels checked", summary.checked, "each is the one the simulator gave for that row"))
    for stage, count, note in rows:
        table.add_row(stage, f"{count:,}", escape(note))
    return table


def _sample(rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"{_ROWS} rows of the joined table (sentiment is the label that people gave)")
    table.title_justify = "left"
    for name in ("tweet_id", "text", "sentiment", "llm_status", "label", "llm_model"):
        table.add_column(name, overflow="ellipsis", no_wrap=True, min_width=0 if name == "text" else 11)
    answered = [row for row in rows if row["llm_status"] is not None]
    for row in answered[:: max(1, len(answered) // _ROWS)][:_ROWS]:
        label = (row["llm_output"] or {}).get("label")
        text = " ".join(str(row["text"]).split())[:_TEXT_CHARS]
        cells = (row["tweet_id"], text, row["sentiment"], row["llm_status"], label, row["llm_model"])
        table.add_row(*(escape(str(cell)) for cell in cells))
    return table
