"""Totals from a few tried rows: the interval holds the truth as often as it says, and says when nobody knows."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.shares import spread
from schemas.bills import Earlier
from schemas.estimate import Prompts, Range, Tier, from_earlier, from_size, max_tokens, student_t, total
from schemas.models import Price

AMOUNTS = st.floats(0, 1000)


@pytest.mark.parametrize(
    ("degrees", "t"),
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (10, 2.228),
        (30, 2.042),
        (199, 1.972),
        (1e6, 1.960),
    ],
)
def test_students_t_is_that_of_the_tables(degrees: float, t: float) -> None:
    assert student_t(degrees) == pytest.approx(t, rel=2e-3)


def test_rows_that_are_alike_leave_no_doubt() -> None:
    assert total([Tier(1000, [2.0] * 50)]) == Range(2000, 2000, 2000)


def test_one_tier_by_hand() -> None:
    found = total([Tier(90, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])])
    assert found is not None
    assert found.high is not None
    # 90 x 5.5, and 2.262 x the root of 90 x 100 / 10 x 9.1667.
    assert found.point == 495
    assert found.high == pytest.approx(495 + 2.262 * (90 * 100 / 10 * 9.16667) ** 0.5, rel=1e-3)
    assert found.low == pytest.approx(2 * 495 - found.high)


def test_nothing_left_takes_nothing() -> None:
    assert total([]) == Range(0, 0, 0)
    assert total([Tier(0, [3.0, 4.0]), Tier(0, [])]) == Range(0, 0, 0)


def test_differences_too_small_to_square_are_no_division_by_zero() -> None:
    assert total([Tier(1, [0.0, 1.1e-153])]) is not None


def test_what_nobody_knows_is_not_made_up() -> None:
    assert total([Tier(10, [1.0, None])]) is None
    assert total([Tier(10, [1.0, 2.0]), Tier(5, [])]) is None
    assert total([Tier(10, [3.0])]) == Range(0, 30, None)


def test_without_any_tried_row_tokens_are_guessed_and_no_cost() -> None:
    found = from_size([Prompts(100, 40_000)], 50)
    assert (found.tokens, found.usd) == (Range(8_000, 12_500, 21_000), None)
    unbounded = from_size([Prompts(100, 40_000)], None).tokens
    assert unbounded == Range(8_000, 35_600, None)


def test_ranges_add_up() -> None:
    assert Range(1, 2, 3) + Range(10, 20, 30) == Range(11, 22, 33)
    assert (Range(1, 2, 3) + Range(1, 2, None)).high is None


@given(st.lists(st.tuples(st.integers(0, 10_000), st.lists(AMOUNTS, min_size=2, max_size=30)), max_size=4))
def test_the_point_lies_in_the_interval_and_nothing_is_below_zero(tiers: list[tuple[int, list[float]]]) -> None:
    found = total(Tier(left, took) for left, took in tiers)
    assert found is not None
    assert found.high is not None
    assert 0 <= found.low <= found.point * (1 + 1e-9)
    assert found.point <= found.high * (1 + 1e-9)


@given(st.integers(1, 500), st.lists(AMOUNTS, min_size=3, max_size=20), st.integers(2, 5))
def test_more_rows_of_the_same_kind_narrow_the_interval(left: int, took: list[float], times: int) -> None:
    few, many = total([Tier(left, took)]), total([Tier(left, took * times)])
    assert few is not None
    assert many is not None
    assert few.high is not None
    assert many.high is not None
    assert many.high - many.low <= (few.high - few.low) * (1 + 1e-9)


@pytest.mark.parametrize(
    "draws",
    [
        pytest.param((lambda r: r.gauss(100, 20), lambda r: r.gauss(900, 200)), id="normal"),
        pytest.param((lambda r: r.gammavariate(4, 25), lambda r: r.gammavariate(2, 400)), id="gamma"),
        pytest.param((lambda r: r.lognormvariate(4, 0.6), lambda r: r.lognormvariate(6, 0.4)), id="lognormal"),
    ],
)
def test_the_interval_holds_the_truth_19_times_in_20(draws: tuple[Callable[[random.Random], float], ...]) -> None:
    """1,000 tables of 2,000 rows in two tiers, 200 rows of each tried."""
    chance, held, tables = random.Random(7), 0, 1_000
    for _ in range(tables):
        rows = [[draw(chance) for _ in range(size)] for draw, size in zip(draws, (1500, 500), strict=True)]
        tried = spread([len(tier) for tier in rows], 200)
        found = total(Tier(len(tier) - n, tier[:n]) for tier, n in zip(rows, tried, strict=True))
        truth = sum(sum(tier[n:]) for tier, n in zip(rows, tried, strict=True))
        assert found is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert 0.93 <= held / tables <= 0.97


def test_the_cost_of_prompts_of_two_models_by_hand() -> None:
    """60 prompts of 12,000 bytes for 1 and 4 USD a million tokens, 40 of 20,000 for 10 and 40; answers up to 100."""
    small = Price(input_per_million=Decimal(1), output_per_million=Decimal(4))
    large = Price(input_per_million=Decimal(10), output_per_million=Decimal(40))
    found = from_size([Prompts(60, 12_000, small), Prompts(40, 20_000, large)], 100)
    assert found.rows == 100
    assert found.tokens == Range(6_400, 13_000, 22_800)
    assert found.usd is not None
    # Millionths: 2,400 + 40,000; 3,000 + 12,000 + 50,000 + 80,000; 4,800 + 24,000 + 80,000 + 160,000.
    assert (found.usd.low, found.usd.point, found.usd.high) == pytest.approx((0.0424, 0.145, 0.2688))
    assert found.confidence is None
    assert "bounds: 0.0424 to 0.2688" in found.text()


def test_one_model_without_a_price_leaves_the_cost_open() -> None:
    price = Price(input_per_million=Decimal(1), output_per_million=Decimal(4))
    assert from_size([Prompts(60, 12_000, price), Prompts(1, 10)], 100).usd is None
    free = from_size([Prompts(60, 12_000, price), Prompts(0, 0)], None).usd
    assert free is not None
    assert free.high is None


def test_earlier_rows_cost_what_they_would_at_the_present_price() -> None:
    price = Price(input_per_million=Decimal(1), output_per_million=Decimal(3))
    told = Earlier("r", "small", Decimal(9), 30, 20, 10)
    assert told.cost(price) == pytest.approx(0.00005)
    assert told.cost(None) == 9
    assert Earlier("r", "small", Decimal(9), None).cost(price) == 9
    assert Earlier("r", "small", None, None).cost(price) is None
    # 40 tokens that no call told: the most that they may cost.
    assert Earlier("r", "small", None, 70, 20, 10).cost(price) == pytest.approx(0.00017)
    both = [told, told._replace(model="other", usd=Decimal("0.00005"))]
    found = from_earlier(1_000, both, lambda alias: price if alias == "small" else None)
    assert found.usd is not None
    assert (found.usd.low, found.usd.point, found.usd.high) == pytest.approx((0.05, 0.05, 0.05))
    assert found.tokens == Range(30_000, 30_000, 30_000)


@pytest.mark.parametrize(
    ("params", "most"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 7),
        ({}, None),
        ({"max_tokens": True}, None),
    ],
)
def test_the_longest_answer_is_what_the_parameters_allow(params: dict[str, Any], most: int | None) -> None:
    assert max_tokens(params) == most
