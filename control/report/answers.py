"""The four questions that everybody asks of a job, and its runs one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, timedelta
from decimal import Decimal

from control.report.markup import Markup, element, table
from control.status.document import RunStatus, Spend

_SHOWN_RUNS = 20
_UNKNOWN = "unknown"


def cards(runs: Sequence[RunStatus]) -> Markup:
    """Answer the four questions for all given runs together."""
    answers = (
        ("Where is it?", *_where(runs)),
        ("How much is left?", *_left(runs)),
        ("What failed?", *_failed(runs)),
        ("What did it cost?", *_cost(runs)),
    )
    return element("div", *(_card(*answer) for answer in answers), class_="cards")


def each_run(runs: Sequence[RunStatus]) -> Markup:
    """One row a run, the newest first."""
    headers = (
        "run",
        "state",
        "begun",
        "read",
        "rejected",
        "published",
        "succeeded",
        "failed",
        "left",
        "USD",
        "budget",
    )
    shown = list(reversed(runs))[:_SHOWN_RUNS]
    parts = [element("h2", "Runs"), table("runs", headers, (list(_row(run)) for run in shown))]
    if len(runs) > len(shown):
        parts.append(element("p", f"the newest {len(shown)} of {len(runs):,}", class_="soft"))
    return element("section", *parts, class_="whole")


def spent(runs: Sequence[RunStatus]) -> Spend:
    """Sum up what the runs cost; a budget is that of one run alone."""
    sums = ("calls", "maybe_billed", "unknown_calls", "low_usd", "high_usd", "low_tokens", "high_tokens")
    own = runs[0].spend if len(runs) == 1 else Spend()
    total = {name: sum(getattr(run.spend, name) for run in runs) for name in sums}
    return Spend(**total, budget_usd=own.budget_usd, budget_tokens=own.budget_tokens)


def reasons(runs: Sequence[RunStatus]) -> list[tuple[str, int]]:
    """Failed rows by reason, the most frequent first."""
    found: Counter[str] = Counter()
    for run in runs:
        found.update({str(reason): rows for reason, rows in run.failed_by_reason.items()})
        found["no reason told"] += run.failed - sum(run.failed_by_reason.values())
    return sorted(((name, rows) for name, rows in found.items() if rows), key=lambda pair: (-pair[1], pair[0]))


def between(low: Decimal, high: Decimal, *, unknown: int = 0) -> str:
    """Write an amount of money as a range; calls of unknown cost take its upper end away."""
    if unknown:
        return f"{low:,.4f} to {_UNKNOWN} USD"
    return f"{low:,.4f} USD" if low == high else f"{low:,.4f} to {high:,.4f} USD"


def _card(question: str, answer: str, *more: str) -> Markup:
    said = (element("p", line, class_="soft") for line in more)
    return element("div", element("h2", question), element("strong", answer), *said, class_="card")


def _where(runs: Sequence[RunStatus]) -> Iterator[str]:
    states = Counter(_state(run) for run in runs)
    one = len(runs) == 1
    yield _state(runs[0]) if one else f"{len(runs):,} runs"
    yield f"run {_named(runs[0])}" if one else ", ".join(f"{n:,} {state}" for state, n in sorted(states.items()))
    yield f"{_sum(runs, 'succeeded'):,} rows succeeded, {_sum(runs, 'failed'):,} failed"
    yield f"{_sum(runs, 'in_flight'):,} in flight, {_sum(runs, 'released'):,} begun and held by nobody"


def _left(runs: Sequence[RunStatus]) -> Iterator[str]:
    known = [run.left for run in runs if run.left is not None]
    yield f"{sum(known):,} rows" if known else _UNKNOWN
    if len(known) < len(runs):
        yield f"not known of {len(runs) - len(known):,} runs"
    speed = sum(run.rows_per_second or 0 for run in runs)
    yield f"{speed:,.1f} rows/s in the last five minutes"
    last = max((run.eta for run in runs if run.eta and run.left), key=lambda eta: eta.seconds, default=None)
    if last is None:
        yield "when the last row ends cannot be told" if sum(known) else "nothing is waited for"
    else:
        latest = "?" if last.latest_seconds is None else _span(last.latest_seconds)
        yield f"ends in {_span(last.seconds)} ({_span(last.earliest_seconds)} to {latest})"


def _failed(runs: Sequence[RunStatus]) -> Iterator[str]:
    failed = _sum(runs, "failed")
    ended = failed + _sum(runs, "succeeded")
    yield f"{failed:,} rows"
    yield f"{failed / ended:.2%} of {ended:,} that ended" if ended else "nothing has ended"
    if found := reasons(runs):
        yield f"most of all: {found[0][0]} ({found[0][1]:,})"
    yield f"{_sum(runs, 'rejected'):,} rows rejected before they were asked"


def _cost(runs: Sequence[RunStatus]) -> Iterator[str]:
    total = spent(runs)
    yield between(total.low_usd, total.high_usd, unknown=total.unknown_calls)
    if budget := _budget(total):
        yield f"of a budget of {budget}"
    tokens = f"{total.low_tokens:,}"
    if total.high_tokens != total.low_tokens:
        tokens += f" to {total.high_tokens:,}"
    yield f"{tokens} tokens in {total.calls:,} calls"
    yield f"{total.maybe_billed:,} calls maybe billed, {total.unknown_calls:,} of unknown cost"


def _row(run: RunStatus) -> Iterator[str]:
    yield _named(run)
    yield _state(run)
    yield _UNKNOWN if run.created_at is None else f"{run.created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    for name in ("read", "rejected", "published", "succeeded", "failed", "left"):
        value = getattr(run, name)
        yield _UNKNOWN if value is None else f"{value:,}"
    yield between(run.spend.low_usd, run.spend.high_usd, unknown=run.spend.unknown_calls)
    yield _budget(run.spend) or "none"


def _budget(spend: Spend) -> str:
    usd = [] if spend.budget_usd is None else [f"{spend.budget_usd:,f} USD"]
    tokens = [] if spend.budget_tokens is None else [f"{spend.budget_tokens:,} tokens"]
    return " and ".join([*usd, *tokens])


def _state(run: RunStatus) -> str:
    state = str(run.state or "unrecorded")
    return f"{state} for {run.paused_for}" if run.paused_for else state


def _named(run: RunStatus) -> str:
    return run.run or "(none named)"


def _sum(runs: Sequence[RunStatus], name: str) -> int:
    return sum(getattr(run, name) or 0 for run in runs)


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
