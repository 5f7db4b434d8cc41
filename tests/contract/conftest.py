"""The two stores and the three sources that each suite is run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.contract import sources
from tests.contract.sources import KafkaHarness, SourceHarness
from tests.contract.stores import FakeHarness, PostgresHarness, StoreHarness
from tests.services import KafkaService, PostgresService


@pytest.fixture(scope="session")
def migrated(postgres: PostgresService) -> Iterator[str]:
    """The URL of a database with our tables, shared by the tests of this folder one after the other."""
    with postgres.migrated_database() as url:
        yield url


@pytest.fixture(params=["fake", pytest.param("postgres", marks=pytest.mark.integration)])
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[StoreHarness]:
    """An empty store of each kind."""
    made: StoreHarness
    made = FakeHarness() if request.param == "fake" else PostgresHarness(request.getfixturevalue("migrated"))
    await made.open()
    yield made
    await made.close()


@pytest.fixture(
    params=["fake", *(pytest.param(f"kafka {p}", marks=pytest.mark.integration) for p in ("classic", "consumer"))]
)
async def source(request: pytest.FixtureRequest) -> AsyncIterator[SourceHarness]:
    """An empty topic of each kind, with a group of its own."""
    made: SourceHarness
    if request.param == "fake":
        made = sources.FakeHarness()
    else:
        service: KafkaService = request.getfixturevalue("kafka")
        made = KafkaHarness(service.bootstrap_servers, request.param.split()[1])
        await made.make_topic()
    yield made
    await made.close()
