"""What the tests of programs on real services share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from control.migrate import migrate
from schemas.settings import DatabaseSettings
from tests.services import PostgresService


@pytest.fixture(scope="module")
def database(postgres: PostgresService) -> Iterator[str]:
    """The URL of a database with our tables, which the tests of one file share."""
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    yield url
    postgres.drop_database(url)
