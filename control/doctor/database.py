"""What Postgres says of our tables, our rights, its clock, workers and circuits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row

from control.database import Connection, DatabaseRefusedError, revision, translated
from control.status import statements
from schemas.settings import DatabaseSettings, SettingsError

_CONNECT_SECONDS = 5
SEEN_SECONDS = 60.0
_LIMIT = "SET statement_timeout = '10s'"
_WHO = """
SELECT current_user::text AS user, clock_timestamp() AS now, current_setting('server_version') AS version,
    (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = 'headrace') AS may_use
"""
# By oid, which needs no right; a right to some columns is enough, as the worker's is.
_MISSING = """
SELECT wanted.right FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS wanted("right")
WHERE c.relnamespace = to_regnamespace('headrace')::oid AND c.relname = 'results'
    AND NOT has_any_column_privilege(c.oid, wanted.right)
"""


@dataclass(frozen=True)
class DatabaseFacts:
    """`may_use` is None where the schema is not there; what was refused is None, and named in `untold`."""

    user: str
    version: str
    ahead_seconds: float
    may_use: bool | None
    revision: str | None = None
    missing: list[str] | None = None
    workers: list[dict[str, Any]] | None = None
    circuits: list[dict[str, Any]] | None = None
    untold: list[str] = field(default_factory=list)


def look(settings: DatabaseSettings, now: Callable[[], datetime]) -> DatabaseFacts:
    """Ask the database; raises `DatabaseUnreachableError`, `DatabaseRefusedError` and `SettingsError`."""
    with closing(_connect(settings)) as connection:
        with translated():
            connection.execute(_LIMIT)
            asked = now()
            (who,) = _rows(connection, _WHO)
            between = asked + (now() - asked) / 2
        known = {"user": who["user"], "version": who["version"], "may_use": who["may_use"]}
        ahead = (who["now"] - between).total_seconds()
        if not who["may_use"]:
            return DatabaseFacts(**known, ahead_seconds=ahead)
        untold: list[str] = []
        return DatabaseFacts(
            **known,
            ahead_seconds=ahead,
            revision=_ask(lambda: revision(connection), untold),
            missing=_ask(lambda: [row["right"] for row in _rows(connection, _MISSING)], untold),
            workers=_ask(lambda: _rows(connection, statements.WORKERS, gone_after=SEEN_SECONDS), untold),
            circuits=_ask(lambda: _rows(connection, statements.CIRCUITS), untold),
            untold=untold,
        )


def _connect(settings: DatabaseSettings) -> Connection:
    try:
        with translated():
            return psycopg.connect(settings.url.get_secret_value(), autocommit=True, connect_timeout=_CONNECT_SECONDS)
    except DatabaseRefusedError:
        # The driver's own words show the part of the address that it could not read, and that may be a password.
        raise SettingsError("settings", ["DATABASE_URL cannot be read as an address of Postgres"]) from None


def _ask(question: Callable[[], Any], untold: list[str]) -> Any:
    try:
        with translated():
            return question()
    except DatabaseRefusedError as error:
        untold.append(str(error))
        return None


def _rows(connection: Connection, statement: str, **values: float) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement.encode(), values or None).fetchall()
