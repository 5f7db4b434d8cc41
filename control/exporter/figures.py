"""From the rows that were read to the figures of each job: pure arithmetic over counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from schemas.statuses import JobState, Reason, Status

Row: TypeAlias = Mapping[str, Any]
MOST_JOBS = 100
OTHER = "other"
# Somebody has written a failed row by hand, without saying why.
UNKNOWN = "unknown"
REASONS = (*map(str, Reason), UNKNOWN)
_OPEN = (JobState.CANARY, JobState.RUNNING, JobState.PAUSED)


@dataclass(frozen=True, slots=True)
class Facts:
    """The rows of each statement, read in one snapshot."""

    at: datetime
    runs: Sequence[Row]
    rows: Sequence[Row]
    costs: Sequence[Row]
    backfills: Sequence[Row]
    workers: int
    circuits: int


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One job: counts of rows, US dollars, seconds; None where there is nothing to tell."""

    backlog: int = 0
    done: int = 0
    published: int = 0
    failed: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    low_usd: float = 0.0
    high_usd: float = 0.0
    budget_usd: float | None = None
    budget_spent_usd: float | None = None
    oldest_seconds: float = 0.0
    backfill_seconds: float | None = None
    unjoined: int | None = None
    states: frozenset[JobState] = frozenset()


@dataclass(frozen=True, slots=True)
class Figures:
    """Every job by its name, at most `MOST_JOBS` and `OTHER`, and the fleet."""

    jobs: Mapping[str, JobFigures]
    workers: int
    circuits: int


def figures(facts: Facts) -> Figures:
    """Put everything together."""
    runs, rows, costs = _by_job(facts.runs), _by_job(facts.rows), _by_job(facts.costs)
    joined = {row["job"]: row for row in facts.backfills}
    found = {
        job: _job(facts.at, runs[job], rows[job], costs[job], joined.get(job))
        for job in sorted({*runs, *rows, *costs, *joined})
    }
    began = {job: max(run["created_at"] for run in of_job) for job, of_job in runs.items() if of_job}
    return Figures(_folded(found, began), facts.workers, facts.circuits)


def _by_job(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["job"]].append(row)
    return found


def _job(at: datetime, runs: list[Row], rows: list[Row], costs: list[Row], joined: Row | None) -> JobFigures:
    run = _newest(runs)
    claimed = [row for row in rows if row["status"] == Status.CLAIMED]
    backlog = _backlog(run, sum(row["rows"] for row in claimed), sum(row["since"] for row in rows))
    budget = run["budget_usd"] if run and run["state"] in _OPEN else None
    spent = sum(row["high_usd"] for row in costs if run and row["run"] == run["run"])
    return JobFigures(
        backlog=backlog,
        done=sum(row["rows"] for row in rows if row["status"] == Status.SUCCEEDED),
        published=sum(row["published"] for row in runs),
        failed=_failed(rows),
        low_usd=float(sum(row["low_usd"] for row in costs)),
        high_usd=float(sum(row["high_usd"] for row in costs)),
        budget_usd=None if budget is None else float(budget),
        budget_spent_usd=None if budget is None else float(spent),
        oldest_seconds=_oldest(at, run, claimed) if backlog else 0.0,
        backfill_seconds=max(0.0, joined["seconds"]) if joined else None,
        unjoined=joined["unjoined"] if joined else None,
        states=frozenset({JobState(run["state"])} if run else ()),
    )


def _newest(runs: list[Row]) -> Row | None:
    """The newest recorded run; an empty name stands for messages that name none, and comes last."""
    return max(runs, key=lambda run: (run["run"] != "", run["created_at"], run["run"]), default=None)


def _backlog(run: Row | None, claimed: int, since: int) -> int:
    if run is None or run["run"] == "":
        return claimed
    if run["state"] not in _OPEN:
        return 0
    return max(claimed, int(run["published"]) - since)


def _failed(rows: list[Row]) -> dict[str, int]:
    found = dict.fromkeys(REASONS, 0)
    for row in rows:
        if row["status"] == Status.FAILED:
            found[row["reason"] or UNKNOWN] += row["rows"]
    return found


def _oldest(at: datetime, run: Row | None, claimed: list[Row]) -> float:
    """Topics are read in order: what was begun is older than what was not; else nothing is older than its run."""
    ages: list[float] = [row["oldest_seconds"] for row in claimed if row["oldest_seconds"] is not None]
    if not ages and run is not None:
        ages = [(at - run["created_at"]).total_seconds()]
    return max([0.0, *ages])


def _folded(jobs: Mapping[str, JobFigures], began: Mapping[str, datetime]) -> dict[str, JobFigures]:
    """Keep the jobs that have something to do, then those that began last; all others are one."""
    if len(jobs) <= MOST_JOBS:
        return dict(jobs)
    order = sorted(jobs, key=lambda job: (-(jobs[job].backlog > 0), -_seconds(began.get(job)), job))
    kept = {job: jobs[job] for job in order[:MOST_JOBS] if job != OTHER}
    return {**kept, OTHER: _together([jobs[job] for job in jobs if job not in kept])}


def _seconds(instant: datetime | None) -> float:
    return instant.timestamp() if instant else 0.0


def _together(jobs: Sequence[JobFigures]) -> JobFigures:
    """Sum what can be summed, take the greatest of the ages; the budgets of several jobs are no budget."""
    return JobFigures(
        backlog=sum(job.backlog for job in jobs),
        done=sum(job.done for job in jobs),
        published=sum(job.published for job in jobs),
        failed={reason: sum(job.failed[reason] for job in jobs) for reason in REASONS},
        low_usd=sum(job.low_usd for job in jobs),
        high_usd=sum(job.high_usd for job in jobs),
        oldest_seconds=max(job.oldest_seconds for job in jobs),
        backfill_seconds=max(
            (job.backfill_seconds for job in jobs if job.backfill_seconds is not None), default=None
        ),
        unjoined=sum(job.unjoined or 0 for job in jobs),
        states=frozenset[JobState]().union(*(job.states for job in jobs)),
    )
