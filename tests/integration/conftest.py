"""What the tests of programs on real services share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services import PostgresService


@pytest.fixture(scope="module")
def database(postgres: PostgresService) -> Iterator[str]:
    """The URL of a database with our tables, which the tests of one file share."""
    with postgres.migrated_database() as url:
        yield url
