from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.limits import Cost, FixedWindow, Limiter, SlidingWindow, TokenBucket, Window, window_of
from simulator.reading import read_script
from simulator.script import RateLimit

STEPS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=60)
"""Gaps in quarter seconds, which floats hold exactly, and costs."""


def _admit(window: Window, steps: list[tuple[int, int]]) -> list[tuple[float, int]]:
    now, admitted = 0.0, []
    for gap, cost in steps:
        now += gap / 4
        if window.wait(now, cost) == 0:
            window.take(now, cost)
            admitted.append((now, cost))
    return admitted


@given(STEPS)
def test_a_sliding_window_never_admits_more_than_its_amount_in_any_stretch(steps: list[tuple[int, int]]) -> None:
    admitted = _admit(SlidingWindow(10, 8), steps)
    for start, _ in admitted:
        assert sum(cost for at, cost in admitted if start <= at < start + 8) <= 10


@given(STEPS)
def test_a_fixed_window_never_admits_more_than_its_amount_between_its_edges(steps: list[tuple[int, int]]) -> None:
    admitted = _admit(FixedWindow(10, 8), steps)
    for window in {at // 8 for at, _ in admitted}:
        assert sum(cost for at, cost in admitted if at // 8 == window) <= 10


@given(STEPS)
def test_a_bucket_never_admits_more_than_its_burst_and_its_rate(steps: list[tuple[int, int]]) -> None:
    admitted = [(at, cost) for at, cost in _admit(TokenBucket(10, 8, 5), steps) if cost <= 5]
    taken = 0.0
    for at, cost in admitted:
        taken += cost
        assert taken <= 5 + at * 10 / 8 + 1e-6


@given(STEPS, st.sampled_from(["sliding", "fixed", "bucket"]), st.integers(1, 10))
def test_the_wait_is_exact_enough_to_be_admitted_after_it_and_refused_before(
    steps: list[tuple[int, int]], kind: Literal["sliding", "fixed", "bucket"], cost: int
) -> None:
    window = window_of(RateLimit("requests", 10, kind, 8.0, 10 if kind == "bucket" else None))
    _admit(window, steps)
    now = sum(gap for gap, _ in steps) / 4
    wait = window.wait(now, cost)
    if wait > 0.01:
        assert window.wait(now + wait - 0.01, cost) > 0
    assert window.wait(now + wait + 1e-6, cost) == 0


def test_a_sliding_window_names_the_moment_its_oldest_entry_ends() -> None:
    window = SlidingWindow(2, 60)
    window.take(10, 1)
    window.take(25, 1)
    assert window.wait(30, 1) == 40
    assert window.wait(30, 2) == 55
    assert window.wait(70, 1) == 0


def test_a_fixed_window_names_its_next_edge() -> None:
    window = FixedWindow(2, 60)
    window.take(59, 2)
    assert window.wait(59.5, 1) == 0.5
    assert window.wait(60, 2) == 0


def test_a_bucket_begins_full_and_refills_at_its_rate() -> None:
    window = TokenBucket(60, 60, 3)
    window.take(0, 3)
    assert window.wait(0, 1) == 1
    assert window.wait(0.25, 1) == 0.75
    assert window.wait(100, 3) == 0
    window.take(100, 3)
    assert window.wait(100, 1) == 1


def test_a_cost_above_the_whole_bucket_waits_for_a_full_one() -> None:
    window = TokenBucket(60, 60, 3)
    assert window.wait(0, 10) == 0
    window.take(0, 10)
    assert window.wait(0, 1) == 8


@pytest.mark.parametrize(("amount", "burst"), [(600, 10), (6, 1)])
def test_the_burst_of_a_bucket_is_a_second_of_its_rate_unless_given(amount: int, burst: int) -> None:
    window = window_of(RateLimit("requests", amount, "bucket"))
    assert len(_admit(window, [(0, 1)] * 20)) == burst


def test_a_refused_call_takes_nothing_from_any_limit() -> None:
    limits = [{"requests_per_minute": 2}, {"tokens_per_minute": 100}]
    limiter = Limiter(read_script({"limits": limits}))
    big, small = Cost("m", 50, 60), Cost("m", 50, 0)
    assert limiter.refuse(0, big) is not None
    assert limiter.refuse(1, small) is None
    assert limiter.refuse(2, small) is None
    refusal = limiter.refuse(3, Cost("m", 0, 0))
    assert refusal is not None
    assert (refusal.limit, refusal.wait) == (read_script({"limits": limits}).rates[0], 58)


def test_the_longest_of_several_waits_is_named() -> None:
    limiter = Limiter(
        read_script({"limits": [{"requests_per_minute": 1}, {"requests_per_minute": 1, "window_s": 90}]})
    )
    assert limiter.refuse(0, Cost("m", 1, 0)) is None
    refusal = limiter.refuse(10, Cost("m", 1, 0))
    assert refusal is not None
    assert refusal.wait == 80


def test_a_limit_of_a_model_leaves_other_models_alone() -> None:
    limiter = Limiter(read_script({"limits": [{"requests_per_minute": 1, "model": "small"}]}))
    assert limiter.refuse(0, Cost("small", 1, 0)) is None
    assert limiter.refuse(0, Cost("small", 1, 0)) is not None
    assert limiter.refuse(0, Cost("large", 1, 0)) is None


def test_a_schedule_of_places_is_followed() -> None:
    schedule = [{"at_s": 0, "max": 64}, {"at_s": 30, "max": 4}]
    gate = Limiter(read_script({"limits": [{"max_concurrent": schedule}]})).gate_of("any")
    assert gate is not None
    gate.open = 4
    assert [gate.allowed(at) for at in (0, 29.9, 30, 1000)] == [64, 64, 4, 4]
    assert gate.has_room(29.9)
    assert not gate.has_room(30)


def test_a_full_gate_refuses_with_its_own_wait_before_rates_are_asked() -> None:
    limits = [{"max_concurrent": 1, "retry_after_s": 7}, {"requests_per_minute": 1}]
    limiter = Limiter(read_script({"limits": limits}))
    gate = limiter.gate_of("m")
    assert gate is not None
    gate.open = 1
    refusal = limiter.refuse(0, Cost("m", 1, 0))
    assert refusal is not None
    assert refusal.wait == 7
    gate.open = 0
    assert limiter.refuse(0, Cost("m", 1, 0)) is None
