"""Orders in Postgres: read what is, change it in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg.rows import dict_row

from control.database import connect, translated
from control.jobs import statements
from control.jobs.decisions import Budget, Change, Run
from schemas.settings import DatabaseSettings
from schemas.statuses import JobState, PausedFor


class Jobs:
    """One connection, for one job. Raises the errors of `control.database`."""

    def __init__(self, settings: DatabaseSettings, job: str) -> None:
        self._connection = connect(settings)
        self._job = job

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold what `runs` reads until it is changed."""
        with translated(), self._connection.transaction():
            yield

    def runs(self) -> list[Run]:
        """All runs of the job, in the order in which they began."""
        return [
            Run(
                **{
                    **row,
                    "state": JobState(row["state"]),
                    "paused_for": PausedFor(row["paused_for"]) if row["paused_for"] else None,
                }
            )
            for row in self._rows(statements.RUNS)
        ]

    def has_results(self, run: str | None = None) -> bool:
        """Whether workers have met messages of the job, or of this run of it."""
        return bool(self._rows(statements.HAS_RESULTS, run=run)[0]["exists"])

    def jobs(self) -> list[str]:
        """The names of all jobs that are known here."""
        return [row["job"] for row in self._rows(statements.JOBS)]

    def order(self, changes: Sequence[Change]) -> None:
        """Write the states that have changed."""
        for change in changes:
            if change.after is not None:
                paused = PausedFor.OPERATOR if change.after is JobState.PAUSED else None
                values = {"run": change.run.run, "topic": change.run.topic, "paused_for": paused}
                self._rows(statements.ORDER, **values, state=str(change.after))

    def raise_budget(self, run: Run, budget: Budget) -> None:
        """Let a run spend more; what it has spent before its first budget counts too."""
        usd = budget.usd is not None and run.budget_usd is None
        tokens = budget.tokens is not None and run.budget_tokens is None
        if usd or tokens:
            self._rows(statements.COUNT_SO_FAR, run=run.run, usd=usd, tokens=tokens)
        self._rows(statements.RAISE, run=run.run, usd=budget.usd, tokens=budget.tokens)

    def _rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        with translated(), self._connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement.encode(), {"job": self._job, **values})
            return cursor.fetchall() if cursor.description else []
