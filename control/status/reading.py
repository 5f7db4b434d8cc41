"""Reads all facts of one moment: one snapshot of the database, then the ends of the topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.rows import dict_row

from control.database import Connection, translated
from control.status import statements
from control.status.eta import WINDOW_SECONDS
from control.status.moment import Facts

# As the workers count each other.
GONE_AFTER_SECONDS = 15.0


def read(connection: Connection, job: str | None, runs: int) -> Facts:
    """Read one snapshot; raises the errors of `control.database`."""
    with translated(), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return facts(connection, job, runs)


def facts(connection: Connection, job: str | None, runs: int) -> Facts:
    """Read within the transaction that the caller has opened."""
    asked = {"job": job, "runs": runs, "window": WINDOW_SECONDS, "gone_after": GONE_AFTER_SECONDS}
    found = {
        name: _rows(connection, statement, asked)
        for name, statement in {
            "runs": statements.RUNS,
            "counts": statements.COUNTS,
            "costs": statements.COSTS,
            "workers": statements.WORKERS,
            "circuits": statements.CIRCUITS,
            "limits": statements.LIMITS,
        }.items()
    }
    return Facts(at=_rows(connection, statements.NOW, {})[0]["now"], **found)


def _rows(connection: Connection, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement.encode(), values).fetchall()
