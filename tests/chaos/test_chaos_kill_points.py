"""Kill -9 at each named point of a message's way; the proxies hold a worker exactly there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.invariants import Report
from tests.chaos.manifest import marked
from tests.chaos.servers import Servers
from tests.chaos.toxics import POSTGRES_READY, Trap, claims, commits_claims, commits_offsets, finishes
from tests.chaos.world import World, replaced, world
from tests.fleet import wait_for
from tests.marks import MARKER

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]
Passes = Callable[..., Report]


def _hold(made: World, matches: Callable[[bytes], bool], keep: str, *, kafka: bool = False) -> Trap:
    """Lay a trap that keeps a request or its reply, and leaves the connection open and silent."""
    ends = b"" if kafka else POSTGRES_READY
    trap = Trap(matches, keep="request" if keep == "request" else "reply", reset=False, reply_ends=ends)
    proxy = made.servers.kafka_proxy if kafka else made.servers.postgres_proxy
    return proxy.set_trap(trap)


def _at_trap(matches: Callable[[bytes], bool], keep: str, *, kafka: bool = False) -> Callable[[World], None]:
    def reach(made: World) -> None:
        trap = _hold(made, matches, keep, kafka=kafka)
        assert trap.sprung.wait(40), "the point was not reached"

    return reach


def _in_mid_call(made: World) -> None:
    wait_for(lambda: made.endpoint.stats()["in_flight"] >= 8, 40)


def _after_commit(made: World) -> None:
    before = made.sampler.committed()
    wait_for(lambda: made.sampler.committed() > before, 40)


def _with_unread_messages(made: World) -> None:
    """Fetched and not yet claimed: the claim's request never leaves the proxy."""
    _at_trap(claims, "request")(made)


_POINTS: dict[str, Callable[[World], None]] = {
    "after_fetch": _with_unread_messages,
    "after_claim": _at_trap(commits_claims, "reply"),
    "mid_call": _in_mid_call,
    "after_response": _at_trap(finishes, "request"),
    "after_store": _at_trap(finishes, "reply"),
    "before_commit": _at_trap(commits_offsets, "request", kafka=True),
    "after_commit": _after_commit,
}
# Held there with its first messages, a worker has made no call yet.
_BEFORE_ANY_CALL = {"after_fetch", "after_claim"}


@pytest.mark.parametrize("point", list(_POINTS))
def test_a_kill_at_a_named_point(point: str, shared: Servers, tmp_path: Path, passes: Passes) -> None:
    """One worker alone until its death; then two others."""
    with world(shared, tmp_path, replaced([], 250)) as made:
        (victim,) = made.fleet.start(1)
        made.publisher.trickle(marked(400), per_second=40)
        if point not in _BEFORE_ANY_CALL:
            made.wait_for_ends(40)
        _POINTS[point](made)
        made.kill(victim)
        shared.heal()
        made.fleet.start(2)
        made.settle()
        report = passes(made.report(400))
    assert report.extra_paid_calls <= report.open_at_kills[0]
    assert report.open_at_kills[0] <= (0 if point in _BEFORE_ANY_CALL else 3 * 16)


def test_a_kill_after_a_second_paid_call_leaves_both_on_record(
    shared: Servers, tmp_path: Path, passes: Passes
) -> None:
    """The first call is paid and its answer lost while nothing can be written; the second one may be in flight."""
    ids = [f"r-{n}" for n in range(6)]
    spoiled: dict[str, object] = {"match": {"ids": ids, "attempts": [1]}, "close": "after_request", "bill": True}
    second: dict[str, object] = {"match": {"ids": ids, "attempts": [2]}, "latency_ms": 4_000}
    with world(shared, tmp_path, replaced([{"name": "paid: lost", **spoiled}, second])) as made:
        (victim,) = made.fleet.start(1)
        trap = _hold(made, finishes, "request")
        made.publisher.publish(marked(60))
        assert trap.sprung.wait(40), "nothing was written"
        time.sleep(4)
        made.kill(victim)
        shared.heal()
        made.fleet.start(1)
        made.settle()
        report = passes(made.report(60))
    assert report.extra_paid_calls >= len(ids)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_a_dead_letter_loses_none(when: str, shared: Servers, tmp_path: Path, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 200)) as made:
        (victim,) = made.fleet.start(1)
        made.publisher.publish(marked(60))
        made.wait_for_ends(60)
        if when == "before":
            trap = _hold(made, lambda data: MARKER.encode() in data, "request", kafka=True)
        else:
            trap = _hold(made, lambda data: MARKER.encode() in data, "reply", kafka=True)
        made.publisher.raw(b"poison", f"not json {MARKER}".encode())
        assert trap.sprung.wait(40), "no letter was sent"
        time.sleep(0.2)
        made.kill(victim)
        shared.heal()
        made.publisher.publish(marked(60, start=60))
        made.fleet.start(1)
        made.settle()
        report = passes(made.report(120))
    # A letter whose delivery nobody has seen is written again: at least once, never not at all.
    assert report.dead_letters in ((1,) if when == "before" else (1, 2))
