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
from schemas.job import Job

# What the names of observed counts begin with that are of one rule.
_RULE = "rule:"


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of one run. `published` means acknowledged by the broker; a dry run has none.

    `held_back`: rows to be asked that a canary has kept from being published.
    `rules`: how many of all rows each rule took.
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
        **{f"{_RULE}{rule.name}": column(names.RULE) == rule.name for rule in (job.rules if job else ())},
    }
    observation = Observation()
    observed = rows.observe(observation, *(fn.count_if(counts).alias(name) for name, counts in metrics.items()))
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
        rules={name.removeprefix(_RULE): int(n) for name, n in observed.items() if name.startswith(_RULE)},
    )


def _passes() -> Column:
    return column(names.VERDICT).isNull() & ~column(names.REPEATED)
