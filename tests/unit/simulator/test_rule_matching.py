from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.reading import read_script
from simulator.rules import Moment, chance, matches, rule_for
from tests.unit.simulator.samples import call_of, rule_of

START = Moment(0.0, "seed", {})


@pytest.mark.parametrize(
    ("match", "fits", "fits_not"),
    [
        ({"ids": ["a:b"]}, {"row": "a:b"}, {"row": "a"}),
        ({"id_prefix": "bad-"}, {"row": "bad-1"}, {"row": "good-bad-1"}),
        ({"prompt_contains": "cat"}, {"text": "a cat"}, {"text": "a dog"}),
        ({"prompt_chars_over": 5}, {"text": "123456"}, {"text": "12345"}),
        ({"attempts": [1, 3]}, {"number": 3}, {"number": 2}),
        ({"model": "small"}, {}, {"model": "large"}),
        ({"param": "max_tokens"}, {"max_tokens": 5}, {"max_completion_tokens": 5}),
        ({"ids": ["a"], "attempts": [2]}, {"row": "a", "number": 2}, {"row": "a", "number": 1}),
    ],
)
def test_a_condition_holds_for_one_call_and_not_for_another(
    match: dict[str, Any], fits: dict[str, Any], fits_not: dict[str, Any]
) -> None:
    rule = rule_of(match=match)
    assert matches(rule, call_of(**fits), START)
    assert not matches(rule, call_of(**fits_not), START)


@pytest.mark.parametrize(
    ("elapsed", "held"), [(0.0, False), (9.99, False), (10.0, True), (19.99, True), (20.0, False)]
)
def test_a_stretch_of_time_holds_from_its_begin_to_before_its_end(elapsed: float, held: bool) -> None:
    rule = rule_of(match={"after_s": 10, "until_s": 20})
    assert matches(rule, call_of(), Moment(elapsed, "seed", {})) is held


def test_times_ends_a_rule_after_so_many_hits() -> None:
    rule = rule_of(name="first", match={"times": 2})
    assert matches(rule, call_of(), Moment(0, "seed", {"first": 1}))
    assert not matches(rule, call_of(), Moment(0, "seed", {"first": 2}))


def test_the_first_rule_that_matches_is_taken_and_the_default_answers_the_rest() -> None:
    script = read_script([{"match": {"ids": ["a"]}, "status": 500}, {"match": {"id_prefix": "a"}, "status": 503}])
    status = [rule_for(script, call_of(row=row), START).action.status for row in ("a", "ab", "b")]
    assert status == [500, 503, None]


def test_a_probability_is_met_by_that_share_of_calls() -> None:
    rule = rule_of(match={"probability": 0.05})
    hits = sum(matches(rule, call_of(row=f"r-{at}"), START) for at in range(20_000))
    assert 900 < hits < 1100


@given(row=st.text(min_size=1), number=st.integers(1, 9), seed=st.text())
def test_chance_repeats_and_stays_within_its_bounds(row: str, number: int, seed: str) -> None:
    rule = rule_of(match={"probability": 0.5})
    call = call_of(row="x", number=number)
    call.id = row
    assert chance(rule, call, seed) == chance(rule, call, seed)
    assert 0 < chance(rule, call, seed) < 1


def test_chance_differs_by_seed_attempt_and_rule() -> None:
    rules = read_script([{"match": {"probability": 0.5}}, {"match": {"probability": 0.5}}]).rules
    first, second = call_of(number=1), call_of(number=2)
    drawn = [chance(rules[0], first, "a"), chance(rules[0], first, "b"), chance(rules[0], second, "a")]
    assert len({*drawn, chance(rules[1], first, "a")}) == 4


def test_probabilities_zero_and_one_are_never_and_always() -> None:
    calls = [call_of(row=f"r-{at}") for at in range(1000)]
    assert not any(matches(rule_of(match={"probability": 0}), call, START) for call in calls)
    assert all(matches(rule_of(match={"probability": 1}), call, START) for call in calls)
