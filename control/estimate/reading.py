"""What the database knows of a job's earlier rows, of its newest run and of the fleet: one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row

from control.database import Connection, translated
from control.estimate import statements
from control.status import statements as status
from control.status.eta import WINDOW_SECONDS
from control.status.reading import GONE_AFTER_SECONDS
from schemas.bills import EARLIER, Earlier
from schemas.job import Job

# Earlier rows that are looked at: of a fair sample more would narrow the interval by little.
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Facts:
    """`newest`: the newest run that told its counts; `trials`: of the runs looked at those that were a canary alone.

    `ended`: rows of all jobs by the seconds since they ended; `pace`: rows and seconds of the job's newest run.
    """

    earlier: Sequence[Earlier]
    newest: Mapping[str, Any] | None
    trials: frozenset[str]
    ended: Mapping[int, int]
    pace: Mapping[str, Any] | None
    workers: int


def read(connection: Connection, job: Job) -> Facts:
    """Read one snapshot; raises the errors of `control.database`."""
    with translated(), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        asked = {"job": job.job, "most": _MOST, "window": WINDOW_SECONDS, "gone_after": GONE_AFTER_SECONDS}
        earlier = [Earlier(*row) for row in connection.execute(EARLIER.encode(), asked)]
        asked |= {"runs": sorted({row.run for row in earlier if row.run}), "canary": job.canary.rows}
        return Facts(
            earlier=earlier,
            newest=next(iter(_rows(connection, statements.NEWEST, asked)), None),
            trials=frozenset(row["run"] for row in _rows(connection, statements.TRIALS, asked)),
            ended={row["seconds_ago"]: row["rows"] for row in _rows(connection, statements.ENDED, asked)},
            pace=next(iter(_rows(connection, statements.PACE, asked)), None),
            workers=len(_rows(connection, status.WORKERS, asked)),
        )


def _rows(connection: Connection, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement.encode(), values).fetchall()
