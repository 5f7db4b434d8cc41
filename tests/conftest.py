"""Fixtures that every test folder shares: a real Kafka and a real Postgres, once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import services
from tests.services import KafkaService, PostgresService
from tests.splitting import pytest_collection_modifyitems, pytest_xdist_make_scheduler
from tests.telling import pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown, tell

# How fast examples are drawn and run says something of the machine's load, nothing of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
# Hooks that pytest finds here.
__all__ = [
    "pytest_collection_modifyitems",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_xdist_make_scheduler",
]


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaService]:
    """A running Kafka; use topics and groups with names of your own."""
    with services.kafka() as service:
        tell(request.config, "services", f"Kafka: {service.rung}")
        yield service


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresService]:
    """A running Postgres; take a fresh database with `postgres.new_database()`."""
    with services.postgres() as service:
        tell(request.config, "services", f"Postgres: {service.rung}")
        yield service
