"""One simulator for each test file, empty before each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulated import Simulated, simulated


@pytest.fixture(scope="module")
def running() -> Iterator[Simulated]:
    with simulated() as one:
        yield one


@pytest.fixture
def sim(running: Simulated) -> Simulated:
    """The simulator with an empty script and counts at zero."""
    running.set_script([])
    running.reset()
    return running
