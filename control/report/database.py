"""The comparison of two runs in Postgres: both tables of requests go into the session and are joined there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg.rows import dict_row

from control.database import connect, translated
from control.report import statements
from control.report.difference import LONGEST_LABEL, Cell, Cost, Counts, Difference, Field, labelled
from schemas.settings import DatabaseSettings

Rows = Iterable[tuple[str, str]]


class Comparison:
    """One connection, for one comparison. Raises the errors of `control.database`."""

    def __init__(self, settings: DatabaseSettings, job: str) -> None:
        self._connection = connect(settings)
        self._job = job

    def close(self) -> None:
        """Hang up, and with that drop what was put together."""
        self._connection.close()

    def compare(self, against: str, run: str, before: Rows, after: Rows) -> Difference:
        """Compare the present answers to what each id asked in two runs."""
        self._put_together(before, after)
        labels = labelled(Field(**row) for row in self._rows(statements.FIELDS))
        return Difference(
            self._job,
            against,
            run,
            Counts(**self._rows(statements.COUNTS)[0]),
            Cost(**self._rows(statements.COST, old=against, new=run)[0]),
            {name: [Cell(**row) for row in self._rows(statements.MATRIX, name=name)] for name in labels},
        )

    def _put_together(self, before: Rows, after: Rows) -> None:
        with translated():
            self._connection.execute(statements.TABLES)
        self._copy(statements.COPY_OLD, before)
        self._copy(statements.COPY_NEW, after)
        with translated():
            self._connection.execute(statements.ANALYZE)
        self._rows(statements.ANSWERS, longest=LONGEST_LABEL)
        for statement in (statements.BEST, statements.PAIRS):
            self._rows(statement)

    def _copy(self, statement: str, rows: Rows) -> None:
        with translated(), self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def _rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        with translated(), self._connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement.encode(), {"job": self._job, **values})
            return cursor.fetchall() if cursor.description else []
