"""What the database says of a job when it is reconciled: the producer's run, the last backfill, claims under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from backfill.source import Snapshot, in_snapshot
from schemas.statuses import JobState

_RUN = """
SELECT run, state, created_at, topic IS NOT NULL, rejected, published, skipped FROM headrace.jobs
WHERE job = %(job)s AND run <> '' AND (run = %(run)s OR %(run)s::text IS NULL) ORDER BY created_at DESC LIMIT 1
"""
_BACKFILL = "SELECT started_at, cursor::text FROM headrace.backfills WHERE job = %(job)s AND target = %(target)s"
_CLAIMS = """
SELECT id, coalesce(claimed_until > now(), false) FROM headrace.results WHERE job = %(job)s AND status = 'claimed'
"""


@dataclass(frozen=True, slots=True)
class ProducerRun:
    """One run as the producer has told it; `by_kafka`: whether others answer its messages."""

    run: str
    state: JobState
    created_at: datetime
    by_kafka: bool
    rejected: int
    published: int
    skipped: int

    @property
    def is_open(self) -> bool:
        """Whether messages of it may still wait."""
        return self.state in (JobState.CANARY, JobState.RUNNING, JobState.PAUSED)

    def proves(self, asked: int) -> bool:
        """Whether each of so many requests must have its end: it was published or answered before, and all is read.

        A run that was broken off has published fewer; one with a limit repeats what others were to ask.
        """
        return self.by_kafka and self.state is JobState.DONE and asked == self.published + self.skipped


@dataclass(frozen=True, slots=True)
class LastBackfill:
    """When the last backfill read the answers, on the database's clock, and from which transaction on none."""

    started_at: datetime
    cursor: str


@dataclass(frozen=True, slots=True)
class Standing:
    """All of it, as one snapshot shows it. `claims`: rows in hand by id, and whether their lease holds."""

    run: ProducerRun | None
    backfill: LastBackfill | None
    claims: Mapping[str, bool]

    @property
    def behind(self) -> bool:
        """Whether the target is older than the run: what that has changed is not to be looked for there."""
        return self.backfill is None or (self.run is not None and self.run.created_at > self.backfill.started_at)


def read(snapshot: Snapshot, target: str, run: str | None) -> Standing:
    """Ask for a run, the newest if none is named; raises `UnreachableError`, or `NotAllowedError`."""
    values = {"job": snapshot.job, "target": target, "run": run}
    with in_snapshot(snapshot) as connection:
        told = connection.execute(_RUN, values).fetchone()
        joined = connection.execute(_BACKFILL, values).fetchone()
        claims = connection.execute(_CLAIMS, values).fetchall()
    producer = None if told is None else ProducerRun(told[0], JobState(told[1]), *told[2:])
    return Standing(producer, None if joined is None else LastBackfill(*joined), dict(claims))
