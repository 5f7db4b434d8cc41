from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import draws
from simulator.script import Latency


@given(st.lists(st.text(), min_size=1))
def test_a_draw_repeats_and_stays_within_its_bounds(parts: list[str]) -> None:
    assert draws.unit(*parts) == draws.unit(*parts)
    assert 0 < draws.unit(*parts) < 1


def test_a_draw_is_the_same_on_every_machine() -> None:
    assert draws.whole("seed", 1, "r-1") == 5268519723731727533


def test_a_fixed_latency_takes_no_chance() -> None:
    assert {Latency("uniform", 250, 250).seconds(draw) for draw in (0.01, 0.99)} == {0.25}


def test_a_uniform_latency_fills_its_range() -> None:
    drawn = [Latency("uniform", 100, 300).seconds(draws.unit(at)) for at in range(5000)]
    assert 0.1 <= min(drawn) < 0.101
    assert 0.299 < max(drawn) <= 0.3
    assert statistics.mean(drawn) == pytest.approx(0.2, abs=0.003)


def test_a_lognormal_latency_meets_its_median_and_99th_percentile() -> None:
    latency = Latency("lognormal", 100, 1000)
    assert latency.seconds(0.5) == pytest.approx(0.1)
    assert latency.seconds(0.99) == pytest.approx(1.0)
    drawn = sorted(latency.seconds(draws.unit(at)) for at in range(5000))
    assert drawn[2500] == pytest.approx(0.1, rel=0.05)
    assert drawn[4950] == pytest.approx(1.0, rel=0.2)
