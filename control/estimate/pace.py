"""How fast rows will end: by the limits of the models file, and by what the fleet did lately. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

from control.estimate.document import Amount, Time
from control.estimate.reading import Facts
from control.status.eta import WINDOW_SECONDS, Eta, eta, rate
from schemas.models import Model

_FEWEST_ROWS = 20
# Of the rows of a run the middle nine tenths are timed.
_TIMED = 0.9


def limit(model: Model, tokens_per_row: float | None) -> float | None:
    """Give the rows a second that the endpoints of a model allow; None if any endpoint has no limit."""
    called = [endpoint for endpoint in model.endpoints if endpoint.weight]
    rates = []
    if all(endpoint.rpm for endpoint in called):
        rates.append(sum(endpoint.rpm or 0 for endpoint in called) / 60)
    if tokens_per_row and all(endpoint.tpm for endpoint in called):
        rates.append(sum(endpoint.tpm or 0 for endpoint in called) / 60 / tokens_per_row)
    return min(rates, default=None)


def allowed(rates: Mapping[str, float | None], shares: Mapping[str, float]) -> float | None:
    """Give the rows a second of all models together; None: nothing limits them.

    With their shares of the rows the slowest model decides; without, no split is faster than all of them at once.
    """
    if shares:
        known = [(rates.get(alias), share) for alias, share in shares.items()]
        return min((speed / share for speed, share in known if share and speed is not None), default=None)
    limited = [speed for speed in rates.values() if speed is not None]
    return sum(limited) if limited and len(limited) == len(rates) else None


def time(rows: int, facts: Facts, most: float | None) -> Time:
    """Say how long so many rows take; `most` is what the limits allow, in rows a second."""
    least = rows / most if most else None
    found, rests_on = _lately(rows, facts)
    if found is None:
        said = "the limits alone: no row has ended lately" if most else "nothing: no row has ended lately, no limit"
        return Time(seconds=None, at_least_seconds=least, rests_on=said)
    floor = least or 0.0
    seconds = Amount(
        low=max(floor, found.earliest),
        point=max(floor, found.seconds),
        high=None if found.latest is None else max(floor, found.latest),
    )
    return Time(seconds=seconds, at_least_seconds=least, rests_on=rests_on)


def _lately(rows: int, facts: Facts) -> tuple[Eta | None, str]:
    now = rate(facts.ended)
    if now is not None and sum(facts.ended.values()) >= _FEWEST_ROWS:
        return eta(rows, now), f"{now.mean:,.1f} rows/s of all jobs in the last {WINDOW_SECONDS // 60} minutes"
    pace = facts.pace
    if pace is None or pace["rows"] < _FEWEST_ROWS or not pace["seconds"]:
        return None, ""
    speed = _TIMED * pace["rows"] / pace["seconds"]
    return Eta(rows / speed, rows / speed, None), f"{speed:,.1f} rows/s of the job's run {pace['run']}"
