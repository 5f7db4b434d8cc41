"""One fault of Kafka at a time: the broker killed, cut off, stalled, thin, and commits whose replies are lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.conftest import Scale
from tests.chaos.invariants import Report
from tests.chaos.manifest import marked
from tests.chaos.servers import Servers
from tests.chaos.toxics import Toxics, Trap, commits_offsets
from tests.chaos.world import replaced, world

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]
Passes = Callable[..., Report]


@pytest.mark.parametrize("seconds", [4, 15])
def test_a_killed_broker_loses_nothing_and_is_resumed_soon(
    seconds: int, shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    messages = marked(scale.single)
    with world(shared, tmp_path, replaced([], {"min": 50, "max": 1200})) as made:
        made.fleet.start(3)
        made.publisher.publish(messages[:200])
        made.publisher.trickle(messages[200:], per_second=40)
        made.wait_for_ends(150)
        with made.fault("broker killed"):
            shared.kafka.kill()
            time.sleep(seconds)
            shared.kafka.start()
        made.settle()
        assert len(made.alive) == 3, "no worker left"
        report = passes(made.report(scale.single))
    assert report.published == scale.single
    assert report.extra_paid_calls == 0
    resumed = report.resumed_after["broker killed"]
    assert resumed is not None
    assert resumed <= 30


@pytest.mark.parametrize("seconds", [4, 25])
def test_workers_cut_off_from_the_broker_come_back(
    seconds: int, shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    messages = marked(scale.single)
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(3)
        made.publisher.trickle(messages, per_second=40)
        made.wait_for_ends(150)
        with made.fault("cut off"):
            shared.kafka_proxy.down()
            time.sleep(seconds)
            shared.kafka_proxy.up()
        made.settle()
        report = passes(made.report(scale.single))
    assert report.extra_paid_calls == 0
    resumed = report.resumed_after["cut off"]
    assert resumed is not None
    assert resumed <= 30


def test_a_storm_of_resets_leaves_progress(shared: Servers, tmp_path: Path, scale: Scale, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(3)
        made.publisher.trickle(marked(scale.single), per_second=40)
        made.wait_for_ends(50)
        before = made.ended()
        for _ in range(15):
            shared.kafka_proxy.reset()
            time.sleep(1)
        assert made.ended() > before
        made.settle()
        report = passes(made.report(scale.single))
    assert report.extra_paid_calls == 0


def test_a_stalled_broker_is_waited_for(shared: Servers, tmp_path: Path, scale: Scale, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(scale.single), per_second=40)
        made.wait_for_ends(100)
        with made.fault("stalled"):
            shared.kafka_proxy.stall()
            time.sleep(20)
            shared.kafka_proxy.flow()
        made.settle()
        report = passes(made.report(scale.single))
    assert report.extra_paid_calls == 0


def test_a_slow_and_thin_line_to_the_broker(shared: Servers, tmp_path: Path, scale: Scale, passes: Passes) -> None:
    with world(shared, tmp_path, replaced([], 300)) as made:
        shared.kafka_proxy.toxics = Toxics(latency=0.05, jitter=0.1, bytes_per_second=64_000)
        made.fleet.start(2)
        made.publisher.publish(marked(scale.single))
        made.settle(300)
        report = passes(made.report(scale.single))
    assert report.extra_paid_calls == 0


def test_commits_whose_replies_are_lost_are_repeated(
    shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    trap = Trap(commits_offsets, times=12)
    with world(shared, tmp_path, replaced([], 300)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(scale.single), per_second=40)
        made.wait_for_ends(50)
        shared.kafka_proxy.set_trap(trap)
        made.settle()
        report = passes(made.report(scale.single))
    assert trap.caught >= 5, "the fault did not happen"
    assert report.extra_paid_calls == 0
