"""What every chaos test shares: servers of their own, a seed, and a summary with the numbers of each run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.chaos.invariants import Report
from tests.chaos.servers import Servers, servers
from tests.telling import tell


@dataclass(frozen=True)
class Scale:
    """How large the runs are: the full form with `HEADRACE_CHAOS=full`, else the quick one."""

    full: bool
    single: int
    mixed: int


@pytest.fixture(scope="session")
def shared() -> Iterator[Servers]:
    """A Kafka and a Postgres that nobody else uses."""
    with servers() as made:
        yield made


@pytest.fixture(scope="session")
def scale() -> Scale:
    """Quick: a minute or so a scenario. Full: 20,000 messages with everything mixed, and real leases."""
    full = os.environ.get("HEADRACE_CHAOS") == "full"
    return Scale(full, 2_000 if full else 1_000, 20_000 if full else 1_500)


@pytest.fixture
def seed() -> int:
    """The seed of this run's faults; `HEADRACE_SEED` replays one."""
    given = os.environ.get("HEADRACE_SEED")
    return int(given) if given else random.SystemRandom().randrange(1_000_000)


@pytest.fixture
def passes(request: pytest.FixtureRequest) -> Callable[[Report, str], Report]:
    """Keep a report for the summary, and fail on any broken invariant."""

    def _passes(report: Report, told: str = "") -> Report:
        tell(request.config, "chaos", f"{request.node.name} {told}: {report.line()}")
        assert not report.problems, "\n".join(report.problems) + f"\n{told} {report.line()}"
        return report

    return _passes
