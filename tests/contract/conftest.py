"""The two stores and the three sources that each suite is run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from control.migrate import migrate
from schemas.settings import DatabaseSettings
from tests.contract.stores import FakeHarness, PostgresHarness, StoreHarness
from tests.services import PostgresService


@pytest.fixture(scope="session")
def migrated(postgres: PostgresService) -> Iterator[str]:
    """The URL of a database with our tables, shared by the tests of this folder one after the other."""
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    yield url
    postgres.drop_database(url)


@pytest.fixture(params=["fake", pytest.param("postgres", marks=pytest.mark.integration)])
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[StoreHarness]:
    """An empty store of each kind."""
    made: StoreHarness
    made = FakeHarness() if request.param == "fake" else PostgresHarness(request.getfixturevalue("migrated"))
    await made.open()
    yield made
    await made.close()
