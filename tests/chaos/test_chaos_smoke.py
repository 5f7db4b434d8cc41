"""The suite in small, for every run of the tests: one kill, one spoiled answer, one unreadable message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.invariants import Report
from tests.chaos.manifest import marked
from tests.chaos.servers import Servers
from tests.chaos.world import replaced, world
from tests.fleet import wait_for
from tests.marks import MARKER

pytestmark = pytest.mark.integration


def test_a_kill_in_the_middle_keeps_every_invariant(
    shared: Servers, tmp_path: Path, passes: Callable[..., Report]
) -> None:
    lost = {"match": {"ids": ["r-7"], "attempts": [1]}, "close": "after_request", "bill": True}
    with world(shared, tmp_path, replaced([{"name": "paid: reset", **lost}], {"min": 20, "max": 1500})) as made:
        made.fleet.start(2)
        made.publisher.publish(marked(300))
        made.publisher.raw(b"poison", f"not json {MARKER}".encode())
        wait_for(lambda: made.ended() >= 40, 40)
        made.kill(made.alive[0])
        made.settle(90)
        report = passes(made.report(300))
    assert report.extra_paid_calls >= 1
    assert report.dead_letters == 1
    assert len(report.kills) == 1
