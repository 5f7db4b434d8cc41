"""Fixtures that every test folder shares: a real Kafka and a real Postgres, once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import services
from tests.services import KafkaService, PostgresService

# How fast examples are drawn and run says something of the machine's load, nothing of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
RUNGS = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make room for what the summary tells."""
    config.stash[RUNGS] = {}


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaService]:
    """A running Kafka; use topics and groups with names of your own."""
    with services.kafka() as service:
        request.config.stash[RUNGS]["Kafka"] = service.rung
        yield service


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresService]:
    """A running Postgres; take a fresh database with `postgres.new_database()`."""
    with services.postgres() as service:
        request.config.stash[RUNGS]["Postgres"] = service.rung
        yield service


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which rung of the ladder served the session."""
    for name, rung in sorted(terminalreporter.config.stash[RUNGS].items()):
        terminalreporter.write_line(f"{name}: {rung}")
