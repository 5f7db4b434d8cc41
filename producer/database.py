"""Postgres as the producer reaches it, its errors in our words. The one file that knows the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from pydantic import SecretStr

from producer.errors import RunFailedError, UnreachableError, WrongJobError

_CLIENT: dict[str, Any] = {"connect_timeout": 10, "application_name": "headrace-producer"}


@contextmanager
def connected(url: SecretStr) -> Iterator[Connection]:
    """Open a connection that commits each statement; raises a `ProducerError` that names the next step."""
    with _in_our_words(), _connect(url) as connection:
        yield connection


@contextmanager
def holding(url: SecretStr, statement: str, values: Mapping[str, Any]) -> Iterator[None]:
    """Keep what a statement takes, such as a lock, on a connection of its own; that it is lost is no error.

    Raises a `ProducerError` when it cannot be taken.
    """
    with _in_our_words():
        connection = _connect(url)
    with closing(connection):
        with _in_our_words():
            connection.execute(statement.encode(), values)
        yield


def _connect(url: SecretStr) -> Connection:
    return psycopg.connect(url.get_secret_value(), autocommit=True, **_CLIENT)


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        raise WrongJobError("database: the tables of schema headrace are missing; run `headrace migrate`") from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise WrongJobError(f"database: {_say(error)}; grant it to the user of DATABASE_URL") from None
    except psycopg.OperationalError as error:
        raise UnreachableError(f"database: {_say(error)}. Check DATABASE_URL and that the server is up") from None
    except psycopg.Error as error:
        raise RunFailedError(f"database: {_say(error)}") from None


def _say(error: psycopg.Error) -> str:
    return str(error).strip().splitlines()[0]
