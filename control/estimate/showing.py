"""The estimate for people, one line a fact. Words from outside are only text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from control.dead_letters.terminal import visible
from control.estimate.document import Amount, EstimateDocument, Time


def lines(found: EstimateDocument) -> Iterator[str]:
    """Write rows, cost, tokens, time, and what each rests on."""
    yield f"job {visible(found.job, 200)}: {found.rows:,} rows, {visible(found.rows_are, 400)}"
    if found.usd is None:
        yield "cost: unknown, no price"
    else:
        yield f"cost in USD: {_amount(found.usd, 4, found.confidence)}, prices: {visible(found.prices or '', 400)}"
    yield f"tokens: {_amount(found.tokens, 0, found.confidence) if found.tokens else 'unknown'}"
    for model in found.models:
        each = _amount(model.tokens_per_row, 1, 0.95) if model.tokens_per_row else "unknown"
        yield f"  {visible(model.model, 200)}: {model.share:.1%} of {_sampled(found):,} rows, tokens a row {each}"
    yield f"time: {_time(found.time)}"
    yield f"rests on: {visible(found.rests_on, 400)}"
    yield from (f"note: {visible(note, 400)}" for note in found.notes)


def _sampled(found: EstimateDocument) -> int:
    return sum(model.sampled for model in found.models)


def _amount(amount: Amount, places: int, confidence: float | None) -> str:
    high = "unknown" if amount.high is None else f"{amount.high:,.{places}f}"
    if amount.point is None:
        return f"between {amount.low:,.{places}f} and {high}"
    sure = "bounds" if confidence is None else f"{confidence:.0%}"
    return f"{amount.point:,.{places}f} ({sure}: {amount.low:,.{places}f} to {high})"


def _time(time: Time) -> str:
    least = "" if time.at_least_seconds is None else f"at least {_span(time.at_least_seconds)} by the limits"
    seconds = time.seconds
    if seconds is None or seconds.point is None:
        return f"{least or 'unknown'}; rests on {time.rests_on}"
    latest = "" if seconds.high is None else f" ({_span(seconds.low)} to {_span(seconds.high)})"
    return f"about {_span(seconds.point)}{latest}{least and ', ' + least}; rests on {time.rests_on}"


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
