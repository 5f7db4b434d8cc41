"""From figures to series: names, helps and labels, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from control.exporter.figures import Figures, JobFigures
from schemas.statuses import JobState

_Take: TypeAlias = Callable[[JobFigures], float | None]
_GAUGES: dict[str, tuple[str, _Take]] = {
    "backlog": ("Rows of the newest run, or begun, that wait for their end", lambda job: job.backlog),
    "oldest_pending_seconds": ("Age of the oldest row that waits; 0 when none does", lambda job: job.oldest_seconds),
    "spend_low_usd": ("What the calls of all runs have cost at least", lambda job: job.low_usd),
    "spend_high_usd": ("What the calls of all runs have cost at most", lambda job: job.high_usd),
    "budget_usd": ("Budget of the newest run, while it is open", lambda job: job.budget_usd),
    "budget_spent_usd": (
        "What the calls of the newest run have cost at most, if it is open and has a budget",
        lambda job: job.budget_spent_usd,
    ),
    "backfill_age_seconds": ("Since answers were last joined into a target", lambda job: job.backfill_seconds),
    "unjoined": ("Rows that have ended since a backfill last read them", lambda job: job.unjoined),
}
_COUNTERS: dict[str, tuple[str, _Take]] = {
    "done": ("Rows that have their answer", lambda job: job.done),
    "published": ("Rows that producers have had acknowledged, of all runs", lambda job: job.published),
}


def series(found: Figures | None) -> Iterator[Metric]:
    """Every series; without figures that the database cannot be read, and nothing else."""
    yield _one("headrace_exporter_up", "1 when the database can be read", 0 if found is None else 1)
    if found is None:
        return
    yield _one("headrace_workers_alive", "Workers that were heard of within 15 seconds", found.workers)
    yield _one("headrace_circuits_open", "Endpoints that the fleet does not call now", found.circuits)
    for name, (told, take) in _GAUGES.items():
        yield _by_job(GaugeMetricFamily(f"headrace_job_{name}", told, labels=["job"]), found, take)
    for name, (told, take) in _COUNTERS.items():
        yield _by_job(CounterMetricFamily(f"headrace_job_{name}", told, labels=["job"]), found, take)
    yield _failed(found)
    yield _state(found)


def _one(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value=value)


def _by_job(
    family: GaugeMetricFamily | CounterMetricFamily, found: Figures, take: Callable[[JobFigures], float | None]
) -> Metric:
    for name, job in found.jobs.items():
        value = take(job)
        if value is not None:
            family.add_metric([name], value)
    return family


def _failed(found: Figures) -> Metric:
    family = CounterMetricFamily("headrace_job_failed", "Rows that ended as failed", labels=["job", "reason"])
    for name, job in found.jobs.items():
        for reason, rows in job.failed.items():
            family.add_metric([name, reason], rows)
    return family


def _state(found: Figures) -> Metric:
    family = GaugeMetricFamily("headrace_job_state", "1 for the state of the newest run", labels=["job", "state"])
    for name, job in found.jobs.items():
        for state in JobState:
            family.add_metric([name, str(state)], state in job.states)
    return family
