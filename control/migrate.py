"""Bring a database to the newest schema, whoever else is doing the same."""

from __future__ import annotations

import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

import schemas.migrations
from control import roles
from schemas.database import SCHEMA
from schemas.settings import DatabaseSettings

# One lock for all migrations of a database; the number is arbitrary and only ours.
_LOCK = 0x48656164
_MONTHS_AHEAD = 12
# A migration never queues behind a long query while everybody else queues behind the migration.
_LOCK_TIMEOUT = "30s"
_ASK_AGAIN_SECONDS = 0.2


def migrate(database: DatabaseSettings, with_roles: bool = False) -> str:
    """Upgrade to the newest revision and return it; several processes may call this at once.

    `with_roles`: each program's role gets its rights, and no others.

    Raises `sqlalchemy.exc.OperationalError` when the database cannot be reached, `RolesMissingError` before anything
    is changed.
    """
    engine = create_engine(database.url.get_secret_value(), poolclass=NullPool, connect_args={"connect_timeout": 10})
    with engine.connect() as connection:
        if with_roles:
            roles.require(connection)
        _take_turns(connection)
        try:
            revision = _upgrade(connection)
            if with_roles:
                roles.grant(connection)
            return revision
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})


def _take_turns(connection: Connection) -> None:
    """Wait for the lock outside any transaction: an index that is built beside writers waits for all of them."""
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}):
        connection.rollback()
        time.sleep(_ASK_AGAIN_SECONDS)
    connection.rollback()


def _upgrade(connection: Connection) -> str:
    connection.execute(text(f"SET lock_timeout = '{_LOCK_TIMEOUT}'"))
    if not connection.scalar(text("SELECT to_regnamespace(:name)"), {"name": SCHEMA}):
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    connection.commit()
    config = Config()
    config.set_main_option("script_location", str(Path(schemas.migrations.__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.execute(text("SELECT headrace.make_partitions(:ahead)"), {"ahead": _MONTHS_AHEAD})
    connection.commit()
    return str(connection.scalar(text("SELECT version_num FROM headrace.alembic_version")))


def problem(error: Exception) -> str:
    """Say in one line what the database said, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().split("\n", maxsplit=1)[0]
