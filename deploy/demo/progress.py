"""What the database says of a demo's run while the fleet works."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from deploy.demo.errors import DemoError
from deploy.demo.programs import Program, tail
from schemas.statuses import ExitCode

_EVERY_SECONDS = 0.5
# A worker that died leaves its claims for a minute and its partitions for half of one.
_PATIENCE_SECONDS = 300.0

_COUNTS = """
SELECT count(*) FILTER (WHERE status <> 'claimed'), count(*) FILTER (WHERE status = 'failed')
FROM headrace.results WHERE job = %s AND run = %s
"""
_CALLS = """
SELECT count(*), count(*) FILTER (WHERE billed = 'maybe'), coalesce(sum(prompt_tokens), 0)::bigint,
    coalesce(sum(completion_tokens), 0)::bigint,
    coalesce(extract(epoch FROM max(finished_at) - min(started_at)), 0)::float8
FROM headrace.attempts WHERE job = %s AND run = %s
"""
_STOPPED = """
SELECT state, paused_for FROM headrace.jobs WHERE job = %s AND run = %s AND state IN ('paused', 'cancelled')
"""
_FAILURES = (
    "SELECT reason, count(*) FROM headrace.results WHERE job = %s AND status = 'failed' GROUP BY 1 ORDER BY 2 DESC"
)


@dataclass(frozen=True)
class Calls:
    """What one run has asked and used."""

    calls: int = 0
    maybe_billed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


class Progress:
    """Reads counts of one run; `say` gets a line for people."""

    def __init__(self, database_url: str, job: str, run: str, say: Callable[[str], None]) -> None:
        self._connection = psycopg.connect(database_url, autocommit=True)
        self._key = (job, run)
        self._say = say

    def wait(self, published: int, workers: Sequence[Program], update: Callable[[int], None]) -> None:
        """Wait until every published row has its end; a worker that dies is started again.

        A run that is paused or cancelled meanwhile ends the demo as stopped on purpose.
        """
        seen, moved = -1, time.monotonic()
        while (finished := self.counts()[0]) < published:
            if finished != seen:
                seen, moved = finished, time.monotonic()
                update(finished)
            self._revive(workers)
            self._go_on()
            if time.monotonic() - moved > _PATIENCE_SECONDS:
                raise DemoError(f"no row has ended for {_PATIENCE_SECONDS:.0f} s: {tail(workers[0].log)}")
            time.sleep(_EVERY_SECONDS)
        update(finished)

    def counts(self) -> tuple[int, int]:
        """Rows that have ended, and those of them that have failed."""
        row = self._connection.execute(_COUNTS, self._key).fetchone()
        return (row[0], row[1]) if row else (0, 0)

    def calls(self) -> Calls:
        """What the ledger holds of this run."""
        row = self._connection.execute(_CALLS, self._key).fetchone()
        return Calls(*row) if row else Calls()

    def failures(self) -> dict[str, int]:
        """Failed rows of the job by reason."""
        return dict(self._connection.execute(_FAILURES, self._key[:1]).fetchall())

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def _go_on(self) -> None:
        """Raise what ends the demo when nobody is to work on its run any more."""
        if (row := self._connection.execute(_STOPPED, self._key).fetchone()) is None:
            return
        state, paused_for = row
        job, why = self._key[0], " for its budget" if paused_for == "budget" else ""
        advice = (
            f"headrace resume {job}{' --budget-usd MORE' if why else ''}" if state == "paused" else "publish again"
        )
        raise DemoError(f"the run is {state}{why}; its rows are kept as they are. Next: {advice}", ExitCode.STOPPED)

    def _revive(self, workers: Sequence[Program]) -> None:
        for worker in workers:
            if worker.deaths > 5:
                raise DemoError(f"{worker.name} dies again and again: {tail(worker.log)}")
            if worker.revive():
                self._say(f"{worker.name} has died; started again, its rows are taken over when their leases end")
