"""A database with one role a program, as `deploy/postgres/roles.sql` and `headrace migrate --roles` leave it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from control import roles
from control.migrate import migrate
from schemas.settings import DatabaseSettings

FILE = Path(__file__).parents[1] / "deploy" / "postgres" / "roles.sql"
NAMES = (roles.OWNER, *roles.GRANTS)
GROUPS = tuple(name.removeprefix("headrace_") for name in NAMES)


@dataclass(frozen=True)
class Roles:
    """The addresses of one database by role, and that of the server's administrator."""

    admin: str
    urls: Mapping[str, str]

    def settings(self, program: str) -> DatabaseSettings:
        """The settings of a program."""
        return DatabaseSettings.read({"DATABASE_URL": self.urls[f"headrace_{program}"]})


def made(admin: str) -> Roles:
    """Make the roles and give each a password; nothing is migrated yet."""
    password = uuid.uuid4().hex
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(FILE.read_bytes())
        for name in NAMES:
            given = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(name), sql.Literal(password))
            connection.execute(given)
    address = make_url(admin)
    urls = {name: address.set(username=name, password=password) for name in NAMES}
    return Roles(admin, {name: url.render_as_string(hide_password=False) for name, url in urls.items()})


def granted(admin: str) -> Roles:
    """Make the roles, and the tables as their owner."""
    found = made(admin)
    migrate(found.settings("owner"), with_roles=True)
    return found
