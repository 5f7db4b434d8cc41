"""Everything at once: a fleet of four under three monkeys and an endpoint that fails in every way it can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.conftest import Scale
from tests.chaos.invariants import Report
from tests.chaos.manifest import marked
from tests.chaos.monkey import Mischief, Pace
from tests.chaos.servers import Servers
from tests.chaos.world import replaced, world
from tests.marks import EMAIL, MARKER, WIDE
from tests.otlp import receiver

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

_FAULTS: list[dict[str, object]] = [
    {"name": "paid: reset", "match": {"probability": 0.01}, "close": "after_request", "reset": True, "bill": True},
    {"name": "paid: cut", "match": {"probability": 0.005}, "chunked": True, "close": "mid_body"},
    {
        "name": "paid: malformed",
        "match": {"probability": 0.005},
        "body": '{"choices": [',
        "content_type": "text/plain",
    },
    {
        "name": "trouble",
        "match": {"probability": 0.05},
        "status": 500,
        "error": {"message": f"cannot serve {MARKER}"},
    },
    {"name": "limited", "match": {"probability": 0.003}, "status": 429, "headers": {"Retry-After": "1"}},
    {"name": "slow", "match": {"probability": 0.01}, "latency_ms": {"min": 2000, "max": 5000}},
]
# Rows that four troubles in a row, or two spoiled answers, end: rare, and rightly so.
_MOST_FAILED = 0.005
# What leaves the fleet in some way or other, each looked through for what must not leave it.
SEARCHED = """log of worker|pages of workers|dead letter headers|traces|exporter|settings|table results|table attempts
|headrace status|headrace dead-letters list|headrace dead-letters show|headrace reconcile|headrace doctor
|headrace report""".replace("\n", "").split("|")
_REASONS = {"attempts_exhausted", "server_error", "connection", "malformed_response", "crashed"}


def test_all_faults_together(
    shared: Servers, tmp_path: Path, scale: Scale, seed: int, passes: Callable[..., Report]
) -> None:
    messages = marked(scale.mixed)
    half = len(messages) // 2
    script = replaced(_FAULTS, {"p50": 500, "p99": 2000})
    with receiver() as to, world(shared, tmp_path, script, seed, OTEL_EXPORTER_OTLP_ENDPOINT=to.url) as made:
        made.spans, made.asks_everything, made.publisher.traced = to, True, True
        made.fleet.start(4)
        for number in range(3):
            made.publisher.raw(f"poison-{number}".encode(), f"not json {MARKER} {EMAIL} {WIDE}".encode())
        made.publisher.publish(messages[:half])
        made.publisher.trickle(messages[half:], per_second=60)
        mischief = Mischief(made, seed)
        monkeys = [
            mischief.on_workers(Pace(1, 6)),
            mischief.on_broker(Pace(10, 30)),
            mischief.on_database(Pace(3, 12)),
        ]
        for monkey in monkeys:
            monkey.start()
        made.wait_for_ends(round(len(messages) * 0.85), 2400)
        for monkey in monkeys:
            monkey.stop()
        shared.heal()
        made.fleet.start(max(0, 4 - len(made.alive)))
        made.settle(400)
        acts = [act for monkey in monkeys for act in monkey.done]
        told = f"seed {seed}, {len(acts)} acts {sorted(set(acts))}"
        report = passes(made.report(len(messages)), told)
        answers = made.fleet.rows("results", "status = 'succeeded'")
    assert all(MARKER in row["result"] and WIDE in row["result"] for row in answers), (
        "the answers carry the marks too"
    )
    assert not [place for place in SEARCHED if report.searched[place] < 100], report.searched
    assert len(to.spans) > len(messages) // 10
    assert set(report.failed) <= _REASONS
    assert sum(report.failed.values()) <= _MOST_FAILED * len(messages)
    assert report.halts["kill"] >= (20 if scale.full else 3), "a run with few kills shows little"
