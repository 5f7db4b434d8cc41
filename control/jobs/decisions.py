"""What an order changes of which run, and what it leaves as it is and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum

from schemas.statuses import JobState, PausedFor


class Order(StrEnum):
    """What an operator says of a job."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


# The run that stands for all messages which name no recorded run.
UNRECORDED = ""
_AFTER = {Order.PAUSE: JobState.PAUSED, Order.RESUME: JobState.RUNNING, Order.CANCEL: JobState.CANCELLED}
_FROM = {
    Order.PAUSE: {JobState.CANARY, JobState.RUNNING},
    Order.RESUME: {JobState.PAUSED},
    Order.CANCEL: {JobState.CANARY, JobState.RUNNING, JobState.PAUSED},
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run as the table has it; without a state it is not there yet."""

    run: str
    state: JobState | None = None
    topic: str | None = None
    paused_for: PausedFor | None = None
    budget_usd: Decimal | None = None
    budget_tokens: int | None = None
    spent_usd: Decimal = Decimal(0)
    spent_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend from now on; what is not named stays."""

    usd: Decimal | None = None
    tokens: int | None = None

    def __bool__(self) -> bool:
        return self.usd is not None or self.tokens is not None


@dataclass(frozen=True, slots=True)
class Change:
    """One run and the state it is to have; without one it stays as it is."""

    run: Run
    after: JobState | None


def concerned(runs: Sequence[Run], only: str | None, topic: str) -> list[Run]:
    """Give the runs that an order is for: one, or all and the messages of none, whose topic is the newest run's."""
    if only is not None:
        return [run for run in runs if run.run == only]
    whole = next((run for run in runs if run.run == UNRECORDED), None)
    newest = next((run.topic for run in reversed(runs) if run.topic), topic)
    return [*(run for run in runs if run.run != UNRECORDED), whole or Run(UNRECORDED, topic=newest)]


def changes(order: Order, runs: Iterable[Run]) -> list[Change]:
    """Decide what becomes of each run."""
    return [Change(run, _AFTER[order] if _concerns(order, run) else None) for run in runs]


def _concerns(order: Order, run: Run) -> bool:
    if run.state is None:
        return order is not Order.RESUME
    if run.run != UNRECORDED:
        return run.state in _FROM[order]
    # What names no run has no end of its own: it may be paused after a cancel, and cancelled again, which is then for
    # what was published since.
    return {
        Order.PAUSE: run.state is not JobState.PAUSED,
        Order.RESUME: run.state is JobState.PAUSED,
        Order.CANCEL: True,
    }[order]


def raised(runs: Sequence[Run], budget: Budget) -> Run | str:
    """Give the run whose budget is to be raised, or say why there is none."""
    named = [run for run in runs if run.run != UNRECORDED]
    candidates = [run for run in named if run.state is JobState.PAUSED] if len(named) > 1 else named
    if len(candidates) != 1:
        return f"a budget is one run's, and {len(candidates) or 'none'} of them would have it: name it with --run"
    (run,) = candidates
    if run.state in (JobState.CANCELLED, JobState.DONE):
        return f"run {run.run} is {run.state}: it spends nothing more"
    for name, wanted, present, spent in (
        ("--budget-usd", budget.usd, run.budget_usd, run.spent_usd),
        ("--budget-tokens", budget.tokens, run.budget_tokens, run.spent_tokens),
    ):
        if wanted is not None and wanted <= max(present or 0, spent):
            return f"{name} {wanted} is not above what run {run.run} has: a budget of {present}, {spent} spent"
    return run


def similar(job: str, known: Iterable[str]) -> list[str]:
    """Name the jobs whose names look like this one, the likeliest first."""
    return get_close_matches(job, sorted(set(known)), 3, 0.5)
