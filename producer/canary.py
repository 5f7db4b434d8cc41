"""What a canary says of the job: go on, wait, or stop and why. Decisions alone; `trial` acts on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from schemas.estimate import Forecast, Range
from schemas.job import Job
from schemas.statuses import JobState, PausedFor


class Word(StrEnum):
    """What to do next."""

    WAIT = "wait"
    GO = "go"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do next, and why if the run is to stop."""

    word: Word
    why: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job allows: the failed share of the canary's rows, its seconds, and what the run may spend."""

    max_failed: float
    timeout_s: float
    usd: Decimal | None = None
    tokens: int | None = None

    @staticmethod
    def of(job: Job) -> Limits:
        """Read them from a job file."""
        usd = None if job.budget.usd is None else Decimal(str(job.budget.usd))
        return Limits(job.canary.max_failed, job.canary.timeout_s, usd, job.budget.tokens)


@dataclass(frozen=True, slots=True)
class Seen:
    """A canary at one instant: `rows` it has in all, `published` so far, and what has become of these.

    `failed`: by reason; `refusing`: endpoints that refuse the whole run, in our own words; `seconds` since it began,
    those apart in which somebody had paused the run; `workers` that live.
    """

    rows: int
    published: int
    succeeded: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    state: JobState = JobState.CANARY
    paused_for: PausedFor | None = None
    refusing: Sequence[str] = ()
    seconds: float = 0.0
    workers: int = 1

    @property
    def ended(self) -> int:
        """Rows that have their end."""
        return self.succeeded + sum(self.failed.values())


def judge(seen: Seen, limits: Limits) -> Verdict:
    """Decide on what is published so far.

    It stops as soon as nothing that is still to come could save it: an endpoint refuses the whole run, the budget is
    used up, somebody has cancelled the run, or more rows have failed than the whole canary may lose. When its time is
    over, rows without an end count as failed.
    """
    if why := _hopeless(seen, limits):
        return Verdict(Word.STOP, why)
    if seen.ended >= seen.published:
        return Verdict(Word.GO)
    if seen.seconds < limits.timeout_s or seen.paused_for is PausedFor.OPERATOR:
        return Verdict(Word.WAIT)
    lost = sum(seen.failed.values()) + seen.rows - seen.ended
    if lost > limits.max_failed * seen.rows:
        return Verdict(Word.STOP, _overdue(seen, limits))
    return Verdict(Word.GO)


def affordable(forecast: Forecast, spent_usd: Decimal, spent_tokens: int, limits: Limits) -> Verdict:
    """Decide on the rest: what is spent and the estimate's point together must fit into the budget.

    The upper end may lie above it, since the budget is a hard cap whatever the estimate says.
    """
    for name, most, spent, estimate, places in (
        ("usd", limits.usd, float(spent_usd), forecast.usd, 4),
        ("tokens", limits.tokens, float(spent_tokens), forecast.tokens, 0),
    ):
        if most is None or estimate is None:
            continue
        whole = estimate + Range(spent, spent, spent)
        if whole.point > most:
            return Verdict(
                Word.STOP, f"the projected {name} of the run, {whole.text(places)}, exceed budget.{name} {most}"
            )
    return Verdict(Word.GO)


def _hopeless(seen: Seen, limits: Limits) -> str | None:
    if seen.state is JobState.CANCELLED:
        return "the run was cancelled"
    if seen.refusing:
        return f"{'; '.join(seen.refusing)}. Check the key, the model's name and the quota of the workers"
    if seen.paused_for is PausedFor.BUDGET:
        return "the budget is used up, or in money and a model has no price (the worker's log says which)"
    failed = sum(seen.failed.values())
    if failed > limits.max_failed * seen.rows:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(seen.failed.items(), key=_most_first))
        return f"{failed} of {seen.rows} rows failed, more than canary.max_failed {limits.max_failed:g}: {reasons}"
    return None


def _overdue(seen: Seen, limits: Limits) -> str:
    nobody = "" if seen.workers else ", and no worker is running"
    failed = sum(seen.failed.values())
    return (
        f"after canary.timeout_s {limits.timeout_s:g} only {seen.ended} of {seen.rows} rows have ended, "
        f"{failed} of them failed{nobody}; the workers' /readyz and log say what they wait for"
    )


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
