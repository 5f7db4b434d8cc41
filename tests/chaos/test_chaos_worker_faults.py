"""One fault of the fleet at a time: killed, frozen, drained, scaled, slow at the head, twice the same id."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.conftest import Scale
from tests.chaos.invariants import Report
from tests.chaos.manifest import marked
from tests.chaos.sampler import PARTITIONS
from tests.chaos.servers import Servers
from tests.chaos.world import World, replaced, world
from tests.fleet import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]
Passes = Callable[..., Report]
LIMIT = 16


def test_random_kills_cost_at_most_what_was_in_flight(
    shared: Servers, tmp_path: Path, scale: Scale, seed: int, passes: Passes
) -> None:
    draws = random.Random(seed)
    with world(shared, tmp_path, replaced([], {"min": 100, "max": 1500})) as made:
        made.fleet.start(4)
        made.publisher.publish(marked(scale.single))
        made.wait_for_ends(50)
        for _ in range(6):
            time.sleep(draws.uniform(0.5, 4))
            made.kill(draws.choice(made.alive))
            made.fleet.start(1)
        made.settle(300)
        report = passes(made.report(scale.single), f"seed {seed}")
    assert report.extra_paid_calls <= sum(report.kills)
    assert report.extra_paid_calls <= 6 * LIMIT


def test_rolling_stops_cost_nothing(shared: Servers, tmp_path: Path, scale: Scale, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 600)) as made:
        made.fleet.start(3)
        made.publisher.publish(marked(scale.single))
        made.wait_for_ends(50)
        codes = []
        for worker in made.alive:
            codes.append(made.stop(worker))
            made.fleet.start(1)
        made.settle()
        report = passes(made.report(scale.single))
    assert codes == [0, 0, 0]
    assert report.extra_paid_calls == 0
    assert report.maybe_attempts == 0


def test_a_second_signal_is_a_kill_and_no_worse(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([{"match": {"attempts": [1]}, "latency_ms": 4000}])) as made:
        (worker,) = made.fleet.start(1)
        made.publisher.publish(marked(200))
        wait_for(lambda: made.endpoint.stats()["in_flight"] > 4, 40)
        worker.signal(signal.SIGTERM)
        time.sleep(0.5)
        began = time.monotonic()
        assert made.stop(worker) != 0
        assert time.monotonic() - began < 2
        made.fleet.start(2)
        made.settle()
        report = passes(made.report(200))
    assert report.extra_paid_calls <= report.kills[0]


def test_a_zombie_that_wakes_after_its_leases_changes_nothing_and_asks_nothing_more(
    shared: Servers, tmp_path: Path, passes: Passes
) -> None:
    """With real leases even in the quick form: the zombie's own clock has to have seen the time pass."""
    with world(shared, tmp_path, replaced([], 1500)) as made:
        zombie, _ = made.fleet.start(2)
        made.publisher.publish(marked(400))
        made.wait_for_ends(60)
        frozen = made.freeze(zombie)
        wait_for(lambda: _taken_over(made, frozen.pid), 90, lambda: "nobody took the zombie's rows over")
        made.thaw(zombie)
        made.settle()
        assert zombie.process.poll() is None, "the zombie lives on"
        report = passes(made.report(400))
    assert report.extra_paid_calls <= report.open_at_kills[0]


def test_short_freezes_lose_no_member_and_no_call(
    shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(3)
        made.publisher.publish(marked(scale.single))
        made.wait_for_ends(50)
        for worker in made.alive:
            worker.signal(signal.SIGSTOP)
            time.sleep(3)
            worker.signal(signal.SIGCONT)
        made.settle()
        report = passes(made.report(scale.single))
    assert report.extra_paid_calls == 0


def test_frozen_past_the_session_but_not_the_lease_costs_no_call(
    shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(3)
        made.publisher.publish(marked(scale.single))
        made.wait_for_ends(50)
        for worker in made.alive[:2]:
            made.freeze(worker)
            time.sleep(9)
            made.thaw(worker)
        made.settle()
        report = passes(made.report(scale.single))
    assert report.extra_paid_calls == 0


def test_scaling_up_and_down_costs_nothing(shared: Servers, tmp_path: Path, scale: Scale, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 500)) as made:
        made.fleet.start(1)
        made.publisher.publish(marked(scale.single))
        made.wait_for_ends(20)
        for size in (4, 2, 4):
            while len(made.alive) > size:
                assert made.stop(made.alive[0]) == 0
            made.fleet.start(size - len(made.alive))
            time.sleep(6)
        made.settle()
        report = passes(made.report(scale.single))
    assert report.extra_paid_calls == 0


def test_calls_longer_than_the_poll_interval_keep_their_member(
    shared: Servers, tmp_path: Path, passes: Passes
) -> None:
    conf = "session.timeout.ms=6000,heartbeat.interval.ms=1500,max.poll.interval.ms=6000"
    slow = {"match": {"ids": [f"r-{n}" for n in range(8)]}, "latency_ms": 20_000}
    with world(shared, tmp_path, replaced([slow]), KAFKA_CONSUMER_CONF=conf) as made:
        made.fleet.start(2)
        made.publisher.publish(marked(300))
        began = time.monotonic()
        made.wait_for_ends(280, 60)
        assert time.monotonic() - began < 20, "the other rows did not wait"
        made.settle()
        lost = [event for worker in made.fleet.workers for event in worker.events if "MAX_POLL" in str(event)]
        report = passes(made.report(300))
    assert report.extra_paid_calls == 0
    assert not lost


def test_what_ended_behind_a_slow_head_is_not_asked_again_after_kills(
    shared: Servers, tmp_path: Path, passes: Passes
) -> None:
    heads = [f"r-{n}" for n in range(6)]
    slow = {"match": {"ids": heads, "attempts": [1]}, "latency_ms": 600_000, "abort_on_disconnect": True}
    with world(shared, tmp_path, replaced([slow])) as made:
        made.fleet.start(2)
        made.publisher.publish(marked(500))
        made.wait_for_ends(494)
        assert made.fleet.lag() > 0, "the heads hold the commits back"
        for worker in made.alive:
            made.kill(worker)
        made.fleet.start(2)
        made.settle()
        calls = made.endpoint.stats(ids=True)["ids"]
        report = passes(made.report(500))
    assert {id_ for id_, entry in calls.items() if entry["calls"] > 1} == set(heads)
    assert report.extra_paid_calls == 0


def test_the_same_id_at_once_in_every_partition_is_one_row(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 800)) as made:
        made.fleet.start(3)
        wait_for(lambda: _are_ready(made), 60, lambda: "the workers are not ready")
        for partition in range(PARTITIONS):
            made.publisher.publish(marked(60), partition)
        made.settle()
        report = passes(made.report(60))
    assert report.published == 60 * PARTITIONS
    assert report.extra_paid_calls == 0


def test_the_later_version_of_a_row_stands_through_kills(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    slow = {"match": {"prompt_contains": "first"}, "latency_ms": 3_000}
    versions = [[{"id": f"r-{n}", "prompt": f"{word} of {n}"} for n in range(150)] for word in ("first", "second")]
    with world(shared, tmp_path, replaced([slow], 300)) as made:
        made.fleet.start(3)
        made.publisher.publish(versions[0])
        wait_for(lambda: made.endpoint.stats()["in_flight"] > 8, 40)
        made.publisher.publish(versions[1])
        made.kill(made.alive[0])
        made.fleet.start(1)
        made.settle()
        report = passes(made.report(150))
    assert report.published == 300
    assert report.paid_calls >= 150


def test_large_prompts_before_a_slow_endpoint_do_not_fill_the_memory(
    shared: Servers, tmp_path: Path, passes: Passes
) -> None:
    with world(shared, tmp_path, replaced([], 1500)) as made:
        made.publisher.publish(marked(200, chars=600_000))
        made.fleet.start(1)
        made.settle()
        report = passes(made.report(200))
    assert report.peak_rss_mb < 300


def _taken_over(made: World, pid: int) -> bool:
    """Whether nothing is claimed by a process any more."""
    return not made.fleet.rows("results", f"status = 'claimed' AND worker LIKE '%-{pid}-%'".replace("%", "%%"))


def _are_ready(made: World) -> bool:
    return all(worker.events and worker.get("/readyz")[0] == 200 for worker in made.alive)
