"""A limit that nobody told, found from refusals: against the windows that servers count with."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.limits import FixedWindow, SlidingWindow, TokenBucket, Window
from worker.core.limiter import Limiter, Signal
from worker.core.pace import EASED, Pace

LATENCY = 0.2


@dataclass
class Score:
    """What a run came to."""

    answers: int
    refusals: int
    seconds: float

    def goodput(self, limit: float) -> float:
        return self.answers / self.seconds * 60 / limit


def drive(window: Window, seconds: float) -> Score:
    """One worker that always has work against one limit, with the pauses, in whole seconds, that it keeps."""
    pace, limiter, now, paused = Pace(), Limiter(256, 120.0), 0.0, 0.0
    running: list[tuple[float, float, float]] = []
    answers = refusals = 0
    while now < seconds:
        leave = max(pace.ready_at(now), paused) if len(running) < int(limiter.limit) else float("inf")
        if running and running[0][0] <= leave:
            now, started, wait = heapq.heappop(running)
            signal = Signal.OVERLOADED if wait else Signal.ANSWERED
            limiter.sample(signal, started=started, now=now, in_flight=len(running) + 1)
            if wait:
                refusals += 1
                told = float(-(-wait // 1))
                pace.refused(started, now, told)
                paused = max(paused, now + told)
            else:
                answers += 1
                pace.answered(now)
            continue
        now = leave
        pace.take(now)
        wait = window.wait(now, 1.0)
        if not wait:
            window.take(now, 1.0)
        heapq.heappush(running, (now + LATENCY, now, wait))
    return Score(answers, refusals, seconds)


@pytest.mark.parametrize("limit", [600, 6000])
@pytest.mark.parametrize(
    "window",
    [
        lambda limit: SlidingWindow(limit, 60),
        lambda limit: FixedWindow(limit, 60),
        lambda limit: TokenBucket(limit, 60, limit / 60),
    ],
    ids=["sliding", "fixed", "bucket"],
)
def test_a_limit_that_nobody_told_is_used_and_seldom_met(window: Callable[[float], Window], limit: float) -> None:
    score = drive(window(limit), 300)
    assert 0.95 <= score.goodput(limit) <= 1.02
    assert score.refusals <= 0.05 * score.answers


def test_a_refusal_without_a_wait_says_nothing_of_a_rate() -> None:
    pace = Pace()
    for nth in range(100):
        pace.answered(nth / 10)
    pace.refused(9.9, 10.0, 0.0)
    assert pace.rate is None
    assert pace.ready_at(10.0) == 10.0


def test_a_time_without_work_is_in_no_stretch() -> None:
    pace = Pace()
    for at in [nth / 10 for nth in range(100)] + [600 + nth / 10 for nth in range(200)]:
        pace.answered(at)
    pace.refused(619.9, 620.0, 1.0)
    assert pace.rate == pytest.approx(EASED * 200 / 21, rel=0.02)


def test_calls_that_left_before_the_last_lesson_teach_nothing_more() -> None:
    pace = Pace()
    for nth in range(100):
        pace.answered(nth / 10)
    pace.refused(9.9, 10.0, 1.0)
    learned = pace.rate
    assert learned == pytest.approx(EASED * 100 / 11)
    pace.refused(9.95, 10.1, 50.0)
    assert pace.rate == learned


def test_a_pace_is_forgotten_and_meanwhile_grows() -> None:
    pace = Pace()
    for nth in range(100):
        pace.answered(nth / 10)
    pace.refused(9.9, 10.0, 1.0)
    gaps = []
    for now in (11.0, 41.0, 131.0):
        while pace.ready_at(now) <= now:
            pace.take(now)
        before = pace.ready_at(now)
        pace.take(before)
        gaps.append(pace.ready_at(before) - before)
    assert gaps[0] > gaps[1] > gaps[2]
    assert pace.ready_at(3000.0) == 3000.0


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans(), st.floats(0, 120)), max_size=60))
def test_no_history_gives_a_pace_that_stands_still_or_leaves_early(events: list[tuple[float, bool, float]]) -> None:
    pace, now = Pace(), 0.0
    for gap, answered, wait in events:
        now += gap
        if answered:
            pace.answered(now)
        else:
            pace.refused(now - 0.1, now, wait)
        assert pace.rate is None or pace.rate > 0
        at = pace.ready_at(now)
        assert now <= at < float("inf")
        pace.take(at)
