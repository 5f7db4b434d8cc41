"""Postgres as the producer reaches it, its errors in our words. The one file that knows the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from pydantic import SecretStr

from producer.errors import RunFailedError, UnreachableError, WrongJobError

_CLIENT: dict[str, Any] = {"connect_timeout": 10, "application_name": "headrace-producer"}


@contextmanager
def connected(url: SecretStr) -> Iterator[Connection]:
    """Open a connection that commits each statement; raises a `ProducerError` that names the next step."""
    try:
        with psycopg.connect(url.get_secret_value(), autocommit=True, **_CLIENT) as connection:
            yield connection
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
