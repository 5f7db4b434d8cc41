"""How the rows of a canary are shared out over the routes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.shares import spread


@given(st.lists(st.integers(0, 5_000), max_size=8), st.integers(1, 1_000))
def test_rows_to_try_are_shared_out_to_the_last_and_no_tier_is_left_out(sizes: list[int], most: int) -> None:
    given_out = spread(sizes, most)
    filled = [number for number, size in enumerate(sizes) if size]
    assert sum(given_out) == min(most, sum(sizes))
    assert all(0 <= got <= size for got, size in zip(given_out, sizes, strict=True))
    if most >= len(filled):
        assert all(given_out[number] for number in filled)


@pytest.mark.parametrize(
    ("sizes", "most", "shares"),
    [
        ([1000], 200, [200]),
        ([150], 200, [150]),
        ([1000, 1000], 200, [100, 100]),
        ([99_000, 1_000], 200, [149, 51]),
        ([10_000, 3], 200, [197, 3]),
        ([5, 0, 5], 1, [1, 0, 0]),
        ([1, 1, 4], 3, [1, 1, 1]),
    ],
)
def test_a_small_tier_is_tried_well_too(sizes: list[int], most: int, shares: list[int]) -> None:
    assert spread(sizes, most) == shares
