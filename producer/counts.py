"""What a run counts, and the sum that must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from producer.verdicts import Reject
from schemas.fingerprint import DEFAULT_ALIAS
from schemas.job import Job

# What the names of observed counts begin with that are of one rule or one model.
_RULE, _MODEL, _ESCALATED = "rule:", "model:", "escalated:"


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of one run. `published` means acknowledged by the broker; a dry run has none.

    `held_back`: rows to be asked that a canary has kept from being published.
    `rules`: how many of all rows each rule took. `tiers`, of a job with routes: of each model how many requests ask
    it, those that are skipped among them, their share of all, and how many have gone on to it from another model.
    """

    read: int = 0
    published: int = 0
    rejected: int = 0
    deduplicated: int = 0
    skipped: int = 0
    truncated: int = 0
    rejected_by_reason: Mapping[str, int] = field(default_factory=dict)
    held_back: int = 0
    rules: Mapping[str, int] = field(default_factory=dict)
    tiers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def imbalance(self) -> str | None:
        """Say how the sum fails, or None: each row is published, rejected, deduplicated, skipped or held back."""
        told = self.published + self.rejected + self.deduplicated + self.skipped + self.held_back
        if told == self.read:
            return None
        return (
            f"{self.read} rows were read, but {self.published} published + {self.rejected} rejected + "
            f"{self.deduplicated} deduplicated + {self.skipped} skipped + {self.held_back} held back = {told}"
        )


def publishable(rows: DataFrame) -> DataFrame:
    """Keep the judged rows that are to be published."""
    return rows.where(_passes())


def counted(rows: DataFrame, job: Job | None = None) -> tuple[DataFrame, Observation]:
    """Count judged rows on their way to the sink and keep those to publish; rules are counted of this job.

    The counting stands in the last stage before the sink, which each row passes in one successful task.
    """
    reason = column(names.VERDICT)["reason"]
    metrics = {
        "read": fn.lit(True),
        "passing": _passes(),
        "deduplicated": column(names.REPEATED),
        "truncated": _passes() & column(names.TRUNCATED),
        **{str(member): reason == str(member) for member in Reject},
        **(_of_job(job) if job else {}),
    }
    observation = Observation()
    # Not `count_if`, for which Spark would lay out each condition as a column of every row.
    counters = (fn.count(fn.when(counts, 1)).alias(name) for name, counts in metrics.items())
    observed = rows.observe(observation, *counters)
    return publishable(observed), observation


def judged_counts(observed: Mapping[str, Any], published: int, skipped: int) -> Counts:
    """Put together what was observed and what the sink did."""
    reasons = {str(member): int(observed[member]) for member in Reject if observed[member]}
    return Counts(
        read=int(observed["read"]),
        published=published,
        rejected=sum(reasons.values()),
        deduplicated=int(observed["deduplicated"]),
        skipped=skipped,
        truncated=int(observed["truncated"]),
        rejected_by_reason=reasons,
        rules=_named(observed, _RULE),
        tiers=_tiers(_named(observed, _MODEL), _named(observed, _ESCALATED)),
    )


def _of_job(job: Job) -> dict[str, Column]:
    """Name what is counted of this job alone."""
    found = {f"{_RULE}{rule.name}": column(names.RULE) == rule.name for rule in job.rules}
    asked = fn.coalesce(column(names.MODEL), fn.lit(DEFAULT_ALIAS))
    seconds = {route.escalate.model for route in job.routes if route.escalate}
    models = [route.model for route in job.routes] + sorted(seconds)
    if job.routes:
        found |= {f"{_MODEL}{model}": _passes() & (asked == model) for model in [*models, DEFAULT_ALIAS]}
    for model in seconds:
        found[f"{_ESCALATED}{model}"] = _passes() & (asked == model) & column(names.ESCALATED)
    return found


def _named(observed: Mapping[str, Any], kind: str) -> dict[str, int]:
    return {name.removeprefix(kind): int(number) for name, number in observed.items() if name.startswith(kind)}


def _tiers(rows: Mapping[str, int], escalated: Mapping[str, int]) -> dict[str, dict[str, float]]:
    total = sum(rows.values())
    return {
        model: {"rows": number, "share": round(number / total, 4), "escalated": escalated.get(model, 0)}
        for model, number in rows.items()
        if number
    }


def _passes() -> Column:
    return column(names.VERDICT).isNull() & ~column(names.REPEATED)
