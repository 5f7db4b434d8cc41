"""The document for people: plain lines anywhere, tables and bars on a terminal. Words from data are only text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from control.dead_letters.terminal import visible
from control.status.document import RunStatus, Spend, StatusDocument

_LONGEST = 60
_DASH = "-"
_TITLES = ("job", "run", "state", "progress", "done", "failed", "in flight", "left", "rows/s", "ends in", "USD")


def lines(document: StatusDocument) -> Iterator[str]:
    """Plain text, one line a fact."""
    for run in document.runs:
        yield f"{_name(run)}: {_state(run)}"
        yield f"  {_said(run)}"
        if run.failed:
            yield f"  failed: {_reasons(run)}"
        yield f"  {_speed(run)}; spent {_spent(run.spend)}"
    if not document.runs:
        yield "no runs: nothing has been published"
    yield from _rest(document)


def screen(document: StatusDocument, width: int) -> RenderableType:
    """The same as a table, one row a run; what stands in no column follows in lines."""
    wide = width >= 120
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _TITLES:
        if wide or title not in ("rows/s", "in flight"):
            table.add_column(title, justify="left" if title in _TITLES[:4] else "right", overflow="fold")
    for run in document.runs:
        table.add_row(*_cells(run, wide=wide))
    failed = [f"{_name(run)} failed: {_reasons(run)}" for run in document.runs if run.failed]
    if not document.runs:
        failed = ["no runs: nothing has been published"]
    return Group(table, *(Text(line) for line in [*failed, *_rest(document)]))


def _cells(run: RunStatus, *, wide: bool) -> Iterator[RenderableType]:
    yield Text(_short(run.job))
    yield Text(_short(run.run) or "(none)")
    yield Text(_state(run))
    yield _bar(run, 20 if wide else 8)
    yield Text(f"{run.succeeded:,}")
    yield Text(f"{run.failed:,}", style="red" if run.failed else "")
    if wide:
        yield Text(f"{run.in_flight:,}")
    yield Text(_number(run.left))
    if wide:
        yield Text(_DASH if run.rows_per_second is None else f"{run.rows_per_second:.1f}")
    yield Text(_ends(run, ranged=wide))
    yield Text(_usd(run.spend))


def _bar(run: RunStatus, width: int) -> RenderableType:
    ended = run.succeeded + run.failed
    if run.left is None:
        return Text("publishing" if run.state else _DASH)
    return ProgressBar(total=max(1, ended + run.left), completed=ended if ended + run.left else 1, width=width)


def _rest(document: StatusDocument) -> Iterator[str]:
    calls = sum(worker.in_flight for worker in document.workers)
    yield f"workers alive: {len(document.workers)}, calls open: {calls}"
    for circuit in document.circuits:
        why = " ".join(filter(None, (circuit.reason, circuit.detail))) or "no reason told"
        since = circuit.opened_at.isoformat(timespec="seconds")
        yield f"circuit open: {_short(circuit.endpoint)} since {since}: {visible(why, 200)}"
    for limit in document.limits:
        if limit.leased_ahead_seconds > 0:
            yield (
                f"limit reached: {_short(limit.endpoint)} {limit.unit}, leased"
                f" {limit.leased_ahead_seconds:.1f} s ahead"
            )
    yield from _lag(document)
    for problem in document.problems:
        yield f"not read: {visible(problem, 300)}"


def _lag(document: StatusDocument) -> Iterator[str]:
    for topic in sorted({part.topic for part in document.lag or ()}):
        parts = [part for part in document.lag or () if part.topic == topic]
        each = " ".join(f"{part.partition}:{part.lag}" for part in parts if part.lag)
        total = f"lag of {_short(topic)}: {sum(part.lag for part in parts):,}"
        yield f"{total} (by partition {each})" if each else total


def _said(run: RunStatus) -> str:
    counted = ("read", "rejected", "deduplicated", "skipped", "published")
    told = [f"{name} {getattr(run, name):,}" for name in counted if getattr(run, name) is not None]
    if not told:
        told = ["its producer has not told its counts yet" if run.state else "no producer has recorded it"]
    rows = [f"done {run.succeeded:,}", f"failed {run.failed:,}", f"in flight {run.in_flight:,}"]
    return ", ".join([*told, *rows, f"left {_number(run.left)}"])


def _speed(run: RunStatus) -> str:
    if run.rows_per_second is None:
        return "too early for a rate"
    ends = _ends(run)
    return f"{run.rows_per_second:.1f} rows/s" + ("" if ends == _DASH else f", ends in {ends}")


def _ends(run: RunStatus, *, ranged: bool = True) -> str:
    if run.eta is None or run.left == 0:
        return _DASH
    if not ranged:
        return _span(run.eta.seconds)
    latest = "?" if run.eta.latest_seconds is None else _span(run.eta.latest_seconds)
    return f"{_span(run.eta.seconds)} ({_span(run.eta.earliest_seconds)}..{latest})"


def _spent(spend: Spend) -> str:
    money = f"{_usd(spend)} USD" + ("" if spend.budget_usd is None else f" of {spend.budget_usd}")
    tokens = _range(f"{spend.low_tokens:,}", f"{spend.high_tokens:,}")
    tokens += " tokens" + ("" if spend.budget_tokens is None else f" of {spend.budget_tokens:,}")
    unknown = f", {spend.unknown_calls} calls of unknown cost" if spend.unknown_calls else ""
    return f"{money}, {tokens} in {spend.calls:,} calls{unknown}"


def _usd(spend: Spend) -> str:
    return _range(f"{spend.low_usd:.4f}", f"{spend.high_usd:.4f}")


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}..{high}"


def _reasons(run: RunStatus) -> str:
    named: Iterable[str] = (f"{reason} {rows:,}" for reason, rows in run.failed_by_reason.items())
    rest = run.failed - sum(run.failed_by_reason.values())
    return ", ".join([*named, *([f"no reason {rest:,}"] if rest else [])])


def _state(run: RunStatus) -> str:
    state = str(run.state or "unrecorded")
    return f"{state} for {run.paused_for}" if run.paused_for else state


def _name(run: RunStatus) -> str:
    return f"{_short(run.job)} run {_short(run.run)}" if run.run else f"{_short(run.job)} (messages that name no run)"


def _short(text: str) -> str:
    return visible(text, _LONGEST)


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
