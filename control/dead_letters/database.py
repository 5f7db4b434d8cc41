"""What is asked of Postgres: failed rows, how rows stand, their calls, and the links of replays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import class_row, dict_row

from control.database import connect, translated
from control.dead_letters import statements
from control.dead_letters.decisions import Standing
from control.dead_letters.filters import Filters
from control.dead_letters.links import Key, Link
from schemas.settings import DatabaseSettings

_ROWS_AT_ONCE = 500
# One replay at a time in a database: two would publish the same letters. The number is arbitrary and only ours.
_LOCK = 0x64656164


class Database:
    """One connection. Raises `DatabaseUnreachableError`, `DatabaseRefusedError` and `SchemaMissingError`."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._connection = connect(settings)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def lock(self) -> bool:
        """Take the place of the one replay at a time, until the connection ends; False if another has it."""
        with translated():
            row = self._connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
        return bool(row and row[0])

    def failed(
        self, filters: Filters, topic_logs: Sequence[str] | None, by_place: bool
    ) -> Iterator[Mapping[str, Any]]:
        """Failed rows as they are at this moment, some at a time; `topic_logs` are the names a topic has in `log`.

        The server keeps what is to come, so that no transaction stays open meanwhile.
        """
        asked = {
            "job": filters.job,
            "id": filters.id,
            "reasons": sorted(filters.reasons) or None,
            "since": filters.since,
            "until": filters.until,
            "topics": topic_logs,
        }
        cursor = self._connection.cursor("failed", row_factory=dict_row, withhold=True)
        with translated():
            cursor.execute(statements.FAILED_BY_PLACE if by_place else statements.FAILED_BY_TIME, asked)
        return self._pages(cursor)

    def row(self, job: str, id_: str) -> dict[str, Any] | None:
        """Everything of one row."""
        return next(iter(self._dicts(statements.ROW, job=job, id=id_)), None)

    def calls(self, job: str, id_: str) -> list[dict[str, Any]]:
        """The calls of one row, the last thousand."""
        return self._dicts(statements.CALLS, job=job, id=id_)

    def standings(self, rows: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Standing]:
        """How rows stand now, by job and id."""
        wanted = sorted(set(rows))
        found = self._dicts(statements.STANDINGS, job=[job for job, _ in wanted], id=[id_ for _, id_ in wanted])
        return {(row.pop("job"), row.pop("id")): Standing(**row) for row in found}

    def replays_of(self, letters: Iterable[Key]) -> dict[Key, list[Link]]:
        """The replays of these letters, each letter's in order."""
        wanted = sorted(set(letters))
        found: dict[Key, list[Link]] = {}
        for link in self._links(statements.LINKS, log=[log for log, _ in wanted], offset=[at for _, at in wanted]):
            found.setdefault(link.key, []).append(link)
        return found

    def line(self, root: str, job: str | None, id_: str | None) -> list[Link]:
        """All replays of a line of letters, or of one row, in order."""
        return self._links(statements.LINE, root=root, job=job, id=id_)

    def begin(self, links: Sequence[Mapping[str, Any]]) -> None:
        """Write links before their messages leave; one that is there already stays as it is."""
        self._execute(statements.BEGIN, {name: [link[name] for link in links] for name in statements.BEGIN_COLUMNS})

    def acknowledge(self, places: Sequence[Mapping[str, Any]]) -> None:
        """Add to links where their messages lie, now that Kafka has them."""
        self._execute(
            statements.ACKNOWLEDGE, {name: [place[name] for place in places] for name in statements.PLACE_COLUMNS}
        )

    def _pages(self, cursor: psycopg.ServerCursor[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        while True:
            with translated():
                rows = cursor.fetchmany(_ROWS_AT_ONCE)
            if not rows:
                return
            yield from rows

    def _dicts(self, statement: str, **values: object) -> list[dict[str, Any]]:
        with translated(), self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement.encode(), values).fetchall()

    def _links(self, statement: str, **values: object) -> list[Link]:
        with translated(), self._connection.cursor(row_factory=class_row(Link)) as cursor:
            return cursor.execute(statement.encode(), values).fetchall()

    def _execute(self, statement: str, values: Mapping[str, object]) -> None:
        with translated():
            self._connection.execute(statement.encode(), values)
