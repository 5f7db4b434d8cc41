"""The retry table: what happens to a row after a call, in one pure function."""

from __future__ import annotations

from dataclasses import dataclass, replace

from schemas.statuses import Reason
from worker.core.outcome import Kind, Outcome

# Retries after the first call; ambiguous ends have their own small limit because each may be a second bill.
RETRIES = 3
AMBIGUOUS_RETRIES = 1

_FIRST_WAIT = {Kind.UNAVAILABLE: 10.0}
_LONGEST_WAIT = {Kind.UNAVAILABLE: 60.0}
_USUAL_FIRST_WAIT = 1.0
_USUAL_LONGEST_WAIT = 30.0
_AMBIGUOUS = frozenset({Kind.TIMEOUT, Kind.MALFORMED})
_FINAL = frozenset({Kind.ANSWERED, Kind.UNFIT, Kind.REJECTED})


@dataclass(frozen=True, slots=True)
class Spent:
    """What a row has used up so far: `tries` counts every failed call, for the back-off; the others are limited."""

    tries: int = 0
    retries: int = 0
    ambiguous: int = 0
    reasons: frozenset[Reason] = frozenset()

    def plus(self, outcome: Outcome) -> Spent:
        """Count a call that the endpoint is not to blame for alone."""
        reasons = self.reasons | {outcome.reason} if outcome.reason else self.reasons
        ambiguous = self.ambiguous + (outcome.kind in _AMBIGUOUS)
        return replace(self, retries=self.retries + 1, ambiguous=ambiguous, reasons=reasons)

    def waited(self) -> Spent:
        """Count a call only towards the length of the next wait."""
        return replace(self, tries=self.tries + 1)


@dataclass(frozen=True, slots=True)
class End:
    """The row is final: `reason` says how, None is success."""

    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Again:
    """The row is asked again after `seconds`; `pause` holds back the whole endpoint for as long."""

    seconds: float
    spent: Spent
    pause: bool = False


def decide(
    outcome: Outcome, spent: Spent, *, jitter: float, others_answered: bool, overdue: bool = False
) -> Again | End:
    """Say whether a row is asked again, and when.

    3 retries after the first call; 1 after a time-out or a malformed answer. Waits have equal jitter, between half
    and the whole of d: d = 1, 2, 4 to 30 s, for 503 and 504 d = 10, 20, 40 to 60 s. A Retry-After is never
    undercut and spends nothing; from the fourth time on one below 1 s has our own back-off for a floor. A fault of
    the run spends nothing either, nor does an outage: a failure while the endpoint answers nobody
    (`others_answered` is False). A row that has waited out the longest outage (`overdue`) ends as expired, but
    never for a fault of the run. `jitter` is in [0, 1).
    """
    if outcome.kind in _FINAL:
        return End(outcome.reason)
    if overdue and outcome.kind is not Kind.RUN_FAULT:
        return End(Reason.EXPIRED)
    if outcome.retry_after is not None and outcome.kind in (Kind.RATE_LIMITED, Kind.UNAVAILABLE, Kind.TROUBLE):
        return Again(_asked_for(outcome.kind, outcome.retry_after, spent.tries, jitter), spent.waited(), pause=True)
    if outcome.kind is Kind.RUN_FAULT or _is_outage(outcome, others_answered):
        return Again(_back_off(outcome.kind, spent.tries, jitter), spent.waited())
    after = spent.plus(outcome).waited()
    if after.retries > RETRIES or after.ambiguous > AMBIGUOUS_RETRIES:
        return End(outcome.reason if len(after.reasons) == 1 else Reason.ATTEMPTS_EXHAUSTED)
    return Again(_back_off(outcome.kind, spent.tries, jitter), after)


def _is_outage(outcome: Outcome, others_answered: bool) -> bool:
    return not others_answered and outcome.kind not in _AMBIGUOUS


def _back_off(kind: Kind, tries: int, jitter: float) -> float:
    first = _FIRST_WAIT.get(kind, _USUAL_FIRST_WAIT)
    whole = min(first * 2.0 ** min(tries, 10), _LONGEST_WAIT.get(kind, _USUAL_LONGEST_WAIT))
    return whole / 2 + whole / 2 * jitter


def _asked_for(kind: Kind, seconds: float, tries: int, jitter: float) -> float:
    """The wait a server asked for; one that says "now" again and again is taken at its word only so often."""
    if seconds < _USUAL_FIRST_WAIT and tries >= RETRIES:
        return max(seconds, _back_off(kind, tries - RETRIES, jitter))
    return seconds + _spread(seconds, jitter)


def _spread(seconds: float, jitter: float) -> float:
    """Spread those who were told the same instant: over a quarter of their wait, at most 15 s."""
    return min(max(seconds / 4, 0.5), 15.0) * jitter if seconds else 0.0
