"""Reads the figures of one moment in one snapshot, over one connection that is made anew when it breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.rows import dict_row

from control.database import Connection, connect, translated
from control.exporter import statements
from control.exporter.figures import Facts, Figures, figures
from control.status import statements as status
from control.status.reading import GONE_AFTER_SECONDS
from schemas.settings import DatabaseSettings

# A server that has gone without a word is given up before the next scrapes have piled up behind it.
_PATIENCE: dict[str, int | str] = {"connect_timeout": 4, "tcp_user_timeout": 30_000}
_ASKED = {"job": None, "runs": 1, "gone_after": GONE_AFTER_SECONDS}


class Reader:
    """For one thread at a time."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings
        self._connection: Connection | None = None

    def read(self) -> Figures:
        """Ask every question once; raises the errors of `control.database`."""
        if self._connection is None:
            self._connection = connect(self._settings, **_PATIENCE)
        try:
            return figures(_facts(self._connection))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _facts(connection: Connection) -> Facts:
    with translated(), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL statement_timeout = '120s'")
        (has_backfills,) = _rows(connection, statements.HAS_BACKFILLS)
        return Facts(
            at=_rows(connection, status.NOW)[0]["now"],
            runs=_rows(connection, status.RUNS),
            rows=_rows(connection, statements.ROWS),
            costs=_rows(connection, status.COSTS),
            backfills=_rows(connection, statements.BACKFILLS) if has_backfills["found"] else [],
            workers=len(_rows(connection, status.WORKERS)),
            circuits=len(_rows(connection, status.CIRCUITS)),
        )


def _rows(connection: Connection, statement: str, values: Mapping[str, Any] = _ASKED) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement.encode(), values).fetchall()
