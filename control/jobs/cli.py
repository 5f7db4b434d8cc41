"""`headrace pause|resume|cancel JOB`."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from decimal import Decimal
from typing import Annotated

import typer

from control.ends import ending, stop
from control.help import settings as named
from control.jobs import reporting
from control.jobs.database import Jobs
from control.jobs.decisions import Budget, Change, Order, Run, changes, concerned, raised, similar
from control.topics import existing_topics
from schemas.settings import DatabaseSettings, KafkaSettings
from schemas.statuses import ExitCode, JobState
from schemas.topics import PROMPTS_PREFIX, is_legal, prompts_topic

SETTINGS = (
    f"{named('DATABASE_URL', 'KAFKA_BOOTSTRAP_SERVERS')} Kafka is asked only for a job that the database does not"
    " know."
)
_Job = Annotated[str, typer.Argument(help="The job's name, as in its job file.", show_default=False)]
_Only = Annotated[
    str | None, typer.Option("--run", help="This run alone; all open ones, and messages of none, if absent.")
]
_Usd = Annotated[float | None, typer.Option("--budget-usd", min=0, help="Let the run spend so much in all.")]
_Tokens = Annotated[int | None, typer.Option("--budget-tokens", min=0, help="Let the run use so many in all.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def pause(job: _Job, run: _Only = None) -> None:
    """Let a job wait: within 5 s no worker begins another of its calls; calls that run end, and are kept.

    Nobody else's job is held back. A run that starts later is not paused.

    Example: headrace pause reviews
    """
    _carry_out(Order.PAUSE, job, run)


def resume(job: _Job, run: _Only = None, budget_usd: _Usd = None, budget_tokens: _Tokens = None) -> None:
    """Let a paused job go on where it was; a run that has used up its budget needs a higher one.

    Example: headrace resume reviews --budget-usd 80
    """
    usd = None if budget_usd is None else Decimal(str(budget_usd))
    _carry_out(Order.RESUME, job, run, Budget(usd, budget_tokens))


def cancel(job: _Job, run: _Only = None, yes: _Yes = False) -> None:
    """End a job: rows without an answer end as failed/cancelled without a call; calls that run end, and are kept.

    A later run asks those rows again.

    Example: headrace cancel reviews --yes
    """
    if sys.stdin.isatty() and not yes:
        what = f"run {run} of {job}" if run else f"all open runs of {job}"
        if not typer.confirm(f"End {what}? What is not answered yet will not be."):
            stop(ExitCode.STOPPED, "nothing was changed")
    _carry_out(Order.CANCEL, job, run)


def _carry_out(order: Order, job: str, only: str | None, budget: Budget = Budget()) -> None:  # noqa: B008
    with ending(), closing(Jobs(DatabaseSettings.read(os.environ), job)) as jobs, jobs.locked():
        runs = jobs.runs()
        _check(jobs, job, only, runs)
        meant = concerned(runs, only, prompts_topic(job)) or [Run(only or "")]
        if budget:
            _raise(jobs, meant, budget)
        decided = changes(order, meant)
        jobs.order(decided)
    _tell(order, job, decided, warn=not budget)


def _check(jobs: Jobs, job: str, only: str | None, runs: list[Run]) -> None:
    """Refuse a job, or a run of it, of which nobody has heard."""
    if not runs and not jobs.has_results() and not _has_topic(job):
        names = [*jobs.jobs(), *_jobs_with_topics()]
        hint = f"; did you mean {', '.join(found)}?" if (found := similar(job, names)) else ""
        stop(ExitCode.WRONG_SETTINGS, f"no job {job}: it has no run, no result and no topic{hint}")
    if only is not None and all(run.run != only for run in runs) and not (only and jobs.has_results(only)):
        known = ", ".join(run.run for run in runs if run.run) or "none"
        stop(ExitCode.WRONG_SETTINGS, f"job {job} has no run {only or repr(only)}; its runs: {known}")


def _raise(jobs: Jobs, meant: list[Run], budget: Budget) -> None:
    run = raised(meant, budget)
    if isinstance(run, str):
        stop(ExitCode.WRONG_SETTINGS, run)
    jobs.raise_budget(run, budget)


def _has_topic(job: str) -> bool:
    return is_legal(prompts_topic(job)) and prompts_topic(job) in existing_topics(KafkaSettings.read(os.environ))


def _jobs_with_topics() -> list[str]:
    prefix = f"{PROMPTS_PREFIX}."
    topics = existing_topics(KafkaSettings.read(os.environ))
    return [topic.removeprefix(prefix) for topic in topics if topic.startswith(prefix)]


def _tell(order: Order, job: str, decided: list[Change], *, warn: bool) -> None:
    for change in decided:
        typer.echo(reporting.line(job, order, change))
        resumed = change.after is JobState.RUNNING
        if resumed and warn and (text := reporting.warning(change.run)):
            typer.echo(text, err=True)
