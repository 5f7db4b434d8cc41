"""A connection to Postgres for the operator's commands, and what can go wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import make_conninfo

from schemas.database import REVISION
from schemas.settings import DatabaseSettings

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
_CONNECT_SECONDS = 10
_REVISION = "SELECT version_num FROM headrace.alembic_version"


class DatabaseUnreachableError(Exception):
    """No server answered, or it went away."""


class DatabaseRefusedError(Exception):
    """The server would not do it."""


class SchemaMissingError(Exception):
    """The tables are not there, or of an older revision."""


def connect(settings: DatabaseSettings, **parameters: int | str) -> Connection:
    """Connect to a database that has our tables; raises `DatabaseUnreachableError` and `SchemaMissingError`.

    `parameters` are further ones of the connection, by libpq's names.
    """
    with translated():
        asked = {"connect_timeout": _CONNECT_SECONDS, **parameters}
        connection = psycopg.connect(make_conninfo(settings.url.get_secret_value(), **asked), autocommit=True)
        found = revision(connection)
    if found is None or found < REVISION:
        connection.close()
        raise SchemaMissingError(f"its schema is at revision {found or 'none'}, {REVISION} is needed")
    return connection


@contextmanager
def translated() -> Iterator[None]:
    """Say in our own errors what the driver says, without the statement and its values."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise DatabaseUnreachableError(_first_line(error)) from None
    except psycopg.Error as error:
        raise DatabaseRefusedError(_first_line(error)) from None


def revision(connection: Connection) -> str | None:
    """Read the revision of the tables, None before the first migration; raises the driver's errors."""
    try:
        row = connection.execute(_REVISION).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    return str(row[0]) if row else None


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).strip().split("\n", maxsplit=1)[0]
