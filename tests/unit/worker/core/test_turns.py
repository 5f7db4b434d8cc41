"""Turns by weight: shares are kept, nobody starves, and nobody saves turns up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from worker.core.turns import Turns


def taken(turns: Turns, waiting: list[str], weights: dict[str, float], count: int) -> Counter[str]:
    return Counter(turns.next(waiting, weights) for _ in range(count))


def test_turns_are_in_proportion_to_weights() -> None:
    assert taken(Turns(), ["high", "low"], {"high": 4.0}, 500) == {"high": 400, "low": 100}


def test_turns_of_equals_alternate() -> None:
    turns = Turns()
    assert "".join(turns.next("ab", {}) for _ in range(6)) == "ababab"


def test_whoever_was_away_has_saved_nothing_up() -> None:
    turns = Turns()
    taken(turns, ["a", "b"], {}, 10)
    taken(turns, ["a"], {}, 1000)
    assert taken(turns, ["a", "b"], {}, 10) == {"a": 5, "b": 5}


def test_names_that_have_gone_are_forgotten() -> None:
    turns = Turns()
    for nth in range(1000):
        turns.next([f"job-{nth}"], {})
    assert len(turns._due) <= 32


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(1 / 32, 32), min_size=2))
def test_the_lowest_has_its_share_at_any_weights(weights: dict[str, float]) -> None:
    """Within one turn of the exact share, at every point."""
    turns, total = Turns(), sum(weights.values())
    had: Counter[str] = Counter()
    for nth in range(1, 300):
        had[turns.next(list(weights), weights)] += 1
        for name, weight in weights.items():
            assert had[name] >= int(nth * weight / total) - len(weights)
