"""Seeded fleets under faults: nothing lost, one row a key, the latest version wins, no offset passes an open message.

A failing seed is printed and replays: `HEADRACE_SEED=7 pytest tests/unit/worker/test_simulated_fleet.py`.
`HEADRACE_SEEDS` is how many are run (1,000).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fakes.simulation import Simulation
from tests.fakes.virtual_time import run

CHUNKS = 10


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def seeds(chunk: int) -> range:
    if (one := os.environ.get("HEADRACE_SEED")) is not None:
        return range(int(one), int(one) + 1) if chunk == 0 else range(0)
    count = int(os.environ.get("HEADRACE_SEEDS", "1000"))
    return range(chunk, count, CHUNKS)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_invariant_holds_for_every_seed(chunk: int) -> None:
    for seed in seeds(chunk):
        simulation = Simulation(seed)
        try:
            run(simulation.run())
        except Exception as error:
            story = "\n".join(simulation.history.events)
            pytest.fail(f"HEADRACE_SEED={seed}: {type(error).__name__}: {error}\n{story}")


def test_the_seeds_are_no_vacuous_pass() -> None:
    """What the faults are meant to bring about does happen."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        simulation = Simulation(seed)
        run(simulation.run())
        seen.update(event.split()[1] for event in simulation.history.events)
        seen["published"] += len(simulation.published)
        seen["taken over"] += simulation.history.lost
        seen["lost lines"] += sum(
            line["outcome"] == "lost" for key in simulation.published for line in simulation.tables.calls(key)
        )
        seen["asked twice"] += sum(count > 1 for count in simulation.history.paid.values())
        seen["letters"] += len(simulation.letters.letters)
    assert all(
        seen[event] > 20 for event in ("kill", "stop", "start", "rebalance", "store", "freeze", "order", "published")
    )
    assert all(seen[what] > 5 for what in ("taken over", "lost lines", "asked twice", "letters"))


def test_a_seed_replays() -> None:
    stories = []
    for _ in range(2):
        simulation = Simulation(5)
        run(simulation.run())
        stories.append((simulation.history.events, simulation.history.paid, len(simulation.endpoint.asked)))
    assert stories[0] == stories[1]
