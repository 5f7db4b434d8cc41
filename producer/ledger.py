"""What the database knows of a job: which rows have a finished result, and the record of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pyarrow import RecordBatch
from pydantic import SecretStr

from producer.counts import Counts
from producer.database import connected, holding
from producer.errors import RunFailedError
from producer.lookup import Finished, unfinished
from schemas.job import Job
from schemas.statuses import JobState, PausedFor, Reason, Status

# What was cancelled has no answer and no failure of its own: a later run asks it without being told to.
_FINISHED = """
SELECT asked.id
FROM unnest(%(ids)s::text[], %(fingerprints)s::text[]) AS asked (id, fingerprint)
JOIN headrace.results AS known ON known.job = %(job)s AND known.id = asked.id
WHERE known.fingerprint = asked.fingerprint AND known.status = ANY (%(statuses)s)
    AND known.reason IS DISTINCT FROM %(cancelled)s
    AND (%(apart_from)s::text IS NULL OR known.run IS DISTINCT FROM %(apart_from)s)
"""
# By request: whatever id it was asked under, and whether its row asks something else by now. One look into each index
# a request, however many results there are.
_ANSWERED = """
SELECT asked.id
FROM unnest(%(ids)s::text[], %(fingerprints)s::text[]) AS asked (id, fingerprint) CROSS JOIN LATERAL (
    (SELECT FROM headrace.results AS known
    WHERE known.job = %(job)s AND known.fingerprint = asked.fingerprint AND known.status <> 'claimed'
        AND known.status = ANY (%(statuses)s) AND known.reason IS DISTINCT FROM %(cancelled)s
        AND (%(apart_from)s::text IS NULL OR known.run IS DISTINCT FROM %(apart_from)s) LIMIT 1)
    UNION ALL
    (SELECT FROM headrace.former_results AS former
    WHERE former.job = %(job)s AND former.fingerprint = asked.fingerprint LIMIT 1)
    LIMIT 1
) AS found
"""
_ANY_FINISHED = """
SELECT EXISTS (SELECT FROM headrace.results WHERE job = %(job)s AND status = ANY (%(statuses)s))
    OR EXISTS (SELECT FROM headrace.former_results WHERE job = %(job)s)
"""
_ATTENDED = "SELECT pg_advisory_lock_shared(hashtextextended('headrace.canary ' || %(job)s || ' ' || %(run)s, 0))"
# Canaries that nobody attends to: their producer was killed. One that has just begun may not hold its lock yet.
_LEFT_BEHIND = """
UPDATE headrace.jobs SET state = %(cancelled)s, finished_at = clock_timestamp(), updated_at = now()
WHERE job = %(job)s AND state = %(canary)s AND created_at < now() - interval '10 seconds'
    AND pg_try_advisory_xact_lock(hashtextextended('headrace.canary ' || job || ' ' || run, 0))
"""
_STARTED = """
INSERT INTO headrace.jobs (job, run, state, topic, priority, budget_usd, budget_tokens)
VALUES (%(job)s, %(run)s, %(state)s, %(topic)s, %(priority)s, %(usd)s, %(tokens)s)
"""
# Whoever has paused or cancelled the run meanwhile has the last word.
_PROCEEDED = """
UPDATE headrace.jobs SET state = %(running)s, updated_at = now()
WHERE job = %(job)s AND run = %(run)s AND state = %(canary)s
"""
_IS_CANCELLED = "SELECT state = %(cancelled)s FROM headrace.jobs WHERE job = %(job)s AND run = %(run)s"
_PAUSED = """
UPDATE headrace.jobs SET state = %(paused)s, paused_for = %(operator)s, updated_at = now()
WHERE job = %(job)s AND run = %(run)s AND state = %(running)s
"""
_STOPPED = """
UPDATE headrace.jobs SET state = %(cancelled)s, paused_for = NULL, finished_at = clock_timestamp(), updated_at = now()
WHERE job = %(job)s AND run = %(run)s AND state = ANY (%(open)s)
"""
_OPEN = (JobState.CANARY, JobState.RUNNING, JobState.PAUSED)
# With its counts a run in Kafka may be found to be done: not before, since more was to come, and at once if nothing
# was published.
_COUNTED = """
UPDATE headrace.jobs SET read = %(read)s, rejected = %(rejected)s, deduplicated = %(deduplicated)s,
    skipped = %(skipped)s, published = %(published)s, updated_at = now(),
    state = CASE WHEN topic IS NULL THEN state
        WHEN state = 'running' AND %(read)s > 0 AND %(published)s = 0 THEN 'done'
        WHEN state = 'done' AND %(published)s > 0 THEN 'running' ELSE state END,
    finished_at = CASE WHEN topic IS NULL THEN finished_at
        WHEN state = 'running' AND %(read)s > 0 AND %(published)s = 0 THEN now()
        WHEN state = 'done' AND %(published)s > 0 THEN NULL ELSE finished_at END
WHERE job = %(job)s AND run = %(run)s
"""
_STATE = "SELECT state, paused_for FROM headrace.jobs WHERE job = %(job)s AND run = %(run)s"
_ENDED = """
UPDATE headrace.jobs SET state = CASE state WHEN 'cancelled' THEN state ELSE 'done' END, paused_for = NULL,
    finished_at = coalesce(finished_at, now()), updated_at = now()
WHERE job = %(job)s AND run = %(run)s
"""
_GIVEN = "SELECT count(*) FROM headrace.results WHERE job = %(job)s AND run = %(run)s"
# Since: the ledger is cut by months.
_IN_DOUBT = """
SELECT count(*) FROM headrace.attempts
WHERE job = %(job)s AND run = %(run)s AND billed = 'maybe' AND claimed_at >= %(since)s
"""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the database knows of one job; small enough to travel to every task.

    `by_request`: a result counts for every row that asks the same, else for the row of its id alone. Results of the
    run `but_of` do not count.
    """

    url: SecretStr
    job: str
    retry_failed: bool = False
    by_request: bool = True
    but_of: str | None = None

    def apart_from(self, run: str) -> Ledger:
        """The same without the results of one run."""
        return replace(self, but_of=run)

    def has_finished(self) -> bool:
        """Tell whether any row of the job is finished; raises when the database or its tables are not there."""
        with connected(self.url) as connection:
            row = connection.execute(_ANY_FINISHED, {"job": self.job, "statuses": self._statuses()}).fetchone()
            return bool(row and row[0])

    def start(self, run: str, job: Job, state: JobState = JobState.RUNNING) -> None:
        """Record a run that begins to publish: its state, topic and priority, and what it may spend.

        Canaries of the job that a killed producer has left behind end as cancelled.
        """
        usd = None if job.budget.usd is None else Decimal(str(job.budget.usd))
        values: dict[str, Any] = {"job": self.job, "run": run, "state": str(state)}
        # A run without messages has no topic that could be parked.
        values["topic"] = job.prompts_topic if job.mode == "kafka" else None
        words = {"cancelled": str(JobState.CANCELLED), "canary": str(JobState.CANARY)}
        with connected(self.url) as connection:
            connection.execute(_LEFT_BEHIND, {"job": self.job, **words})
            connection.execute(
                _STARTED, {**values, "priority": job.priority, "usd": usd, "tokens": job.budget.tokens}
            )

    def attended(self, run: str) -> AbstractContextManager[None]:
        """Let other producers see that somebody attends to a canary, for as long as this process lives."""
        return holding(self.url, _ATTENDED, {"job": self.job, "run": run})

    def proceed(self, run: str) -> bool:
        """Let a run go on after its canary; says whether it may, which a cancelled one may not."""
        values = {"job": self.job, "run": run, "running": str(JobState.RUNNING), "canary": str(JobState.CANARY)}
        with connected(self.url) as connection:
            connection.execute(_PROCEEDED, values)
            asked = {**values, "cancelled": str(JobState.CANCELLED)}
            row = connection.execute(_IS_CANCELLED, asked).fetchone()
            return not (row and row[0])

    def stop(self, run: str) -> None:
        """End a run: within seconds no worker begins another of its calls, and what is open ends as cancelled."""
        values = {"job": self.job, "run": run, "cancelled": str(JobState.CANCELLED)}
        with connected(self.url) as connection:
            connection.execute(_STOPPED, {**values, "open": [str(state) for state in _OPEN]})

    def pause(self, run: str) -> None:
        """Let a run begin no more calls: within seconds its workers end what they have begun and leave the rest."""
        values = {"job": self.job, "run": run, "operator": str(PausedFor.OPERATOR)}
        with connected(self.url) as connection:
            connection.execute(_PAUSED, {**values, "paused": str(JobState.PAUSED), "running": str(JobState.RUNNING)})

    def count(self, run: str, counts: Counts) -> None:
        """Record what the run counted."""
        names = ("read", "rejected", "deduplicated", "skipped", "published")
        told = {name: getattr(counts, name) for name in names}
        with connected(self.url) as connection:
            connection.execute(_COUNTED, {**told, "job": self.job, "run": run})

    def state(self, run: str) -> tuple[JobState, PausedFor | None]:
        """Tell the state of a run, and by whom it was paused if it is."""
        state, paused_for = self._one(_STATE, run)
        return JobState(state), PausedFor(paused_for) if paused_for else None

    def end(self, run: str) -> None:
        """Record that a run is over, whatever has ended it; a cancelled one stays cancelled."""
        with connected(self.url) as connection:
            connection.execute(_ENDED, {"job": self.job, "run": run})

    def given(self, run: str) -> int:
        """Count the rows that workers have taken in hand for a run."""
        return int(self._one(_GIVEN, run)[0])

    def in_doubt(self, run: str, started: datetime) -> int:
        """Count the calls of a run that may have been billed in vain."""
        return int(self._one(_IN_DOUBT, run, since=started - timedelta(days=1))[0])

    @contextmanager
    def finished(self) -> Iterator[Finished]:
        """Open the look-up of one task: which of these ids, with these fingerprints, are finished."""
        with connected(self.url) as connection:

            def look_up(ids: Sequence[str], fingerprints: Sequence[str]) -> set[str]:
                asked: dict[str, Any] = {"job": self.job, "statuses": self._statuses()}
                asked |= {"cancelled": str(Reason.CANCELLED), "apart_from": self.but_of}
                asked |= {"ids": list(ids), "fingerprints": list(fingerprints)}
                found = connection.execute(_ANSWERED if self.by_request else _FINISHED, asked)
                return {row[0] for row in found}

            yield look_up

    def unfinished(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Keep the rows without a finished result, for `mapInArrow`."""
        with self.finished() as look_up:
            for batch in batches:
                yield unfinished(batch, look_up)

    def _one(self, statement: str, run: str, **values: Any) -> tuple[Any, ...]:
        with connected(self.url) as connection:
            row = connection.execute(statement, {"job": self.job, "run": run, **values}).fetchone()
        if row is None:
            raise RunFailedError(f"database: headrace.jobs has lost the run {run}")
        return row

    def _statuses(self) -> list[str]:
        return [str(Status.SUCCEEDED), *([] if self.retry_failed else [str(Status.FAILED)])]
