"""What an order says it has done, one line a run."""

from __future__ import annotations

from control.jobs.decisions import UNRECORDED, Change, Order, Run
from schemas.statuses import JobState, PausedFor

_PAST = {JobState.PAUSED: "paused", JobState.RUNNING: "running", JobState.CANCELLED: "cancelled"}


def line(job: str, order: Order, change: Change) -> str:
    """Say what became of a run, or why nothing did."""
    who, run = name(job, change.run), change.run
    if change.after is None:
        return f"{who}: is {_state(run)}, nothing to {order}"
    if run.state is None:
        return f"{who}: {_PAST[change.after]}"
    if change.after is run.state:
        return f"{who}: {_PAST[change.after]} again, for what was published since"
    return f"{who}: {_state(run)} -> {_PAST[change.after]}"


def name(job: str, run: Run) -> str:
    """Name a run as an operator does."""
    return f"{job} (messages that name no recorded run)" if run.run == UNRECORDED else f"{job} run {run.run}"


def warning(run: Run) -> str | None:
    """Say what will stop a resumed run again, or None."""
    if run.paused_for is not PausedFor.BUDGET:
        return None
    spent = f"{run.spent_usd} USD and {run.spent_tokens} tokens spent"
    return f"run {run.run} had used up its budget ({spent}): without --budget-usd or --budget-tokens it pauses again"


def _state(run: Run) -> str:
    if run.state is None:
        return "as it was"
    return f"{run.state} (its budget is used up)" if run.paused_for is PausedFor.BUDGET else str(run.state)
