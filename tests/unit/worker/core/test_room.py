"""How much is taken in hand: everything for a topic alone, its part beside others, and no place for what is stuck."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from worker.core.room import Bounds, Crowd, Tally

BOUNDS = Bounds(ahead=16, open=100)


def crowd(**topics: tuple[int, int, int]) -> Crowd:
    """By topic: open, asking, inside."""
    made = Crowd()
    for topic, counts in topics.items():
        for tally, count in zip((made.open, made.asking, made.inside), counts, strict=True):
            if count:
                tally.add(topic, count)
    return made


def test_a_tally_forgets_what_counts_nothing() -> None:
    tally = Tally()
    tally.add("a", 2)
    tally.add("b")
    tally.add("a", -2)
    assert (tally.of("a"), tally.of("b"), tally.total, list(tally.topics)) == (0, 1, 1, ["b"])


def test_a_topic_alone_may_fill_the_places_and_the_claims_ahead() -> None:
    assert crowd().room("a", 32, BOUNDS, {}) == 48
    assert crowd(a=(30, 30, 30)).room("a", 32, BOUNDS, {}) == 18
    assert crowd(a=(48, 48, 32)).room("a", 32, BOUNDS, {}) == 0


def test_a_topic_alone_may_have_all_open_prompts_and_no_more() -> None:
    assert crowd(a=(90, 0, 0)).room("a", 32, BOUNDS, {}) == 10
    assert crowd(a=(100, 0, 0)).room("a", 32, BOUNDS, {}) == 0


def test_claims_ahead_are_parted_by_weight() -> None:
    both = crowd(a=(16, 16, 16), b=(16, 16, 16))
    weights = {"a": 3.0}
    assert (both.room("a", 32, BOUNDS, weights), both.room("b", 32, BOUNDS, weights)) == (12, 4)
    assert both.free(32, BOUNDS, weights) == 16


def test_the_lowest_may_always_have_one_ahead() -> None:
    assert crowd(a=(32, 32, 32)).room("b", 32, BOUNDS, {"a": 32.0, "b": 1 / 32}) == 1


def test_what_waits_for_an_endpoint_that_is_down_takes_nobodys_place() -> None:
    stuck = crowd(a=(48, 48, 0))
    assert stuck.room("a", 32, BOUNDS, {}) == 0
    # Of the 48 that may be claimed, those of the stuck topic count as its part of the 16 ahead.
    assert stuck.free(32, BOUNDS, {}) == 32
    assert stuck.room("b", 32, BOUNDS, {}) == 32


def test_a_topic_that_comes_while_another_fills_the_bound_finds_an_equal_part() -> None:
    assert crowd(a=(100, 0, 0)).room("b", 64, BOUNDS, {}) == 50
    assert crowd(a=(100, 0, 0), b=(50, 0, 0)).room("b", 64, BOUNDS, {}) == 0
    assert crowd(a=(100, 0, 0), b=(10, 0, 0)).room("a", 64, BOUNDS, {}) == 0


def test_beside_others_at_most_half_of_the_open_prompts_are_idle_ones_of_one_topic() -> None:
    beside = crowd(a=(45, 0, 0), b=(1, 1, 1))
    assert beside.room("a", 64, BOUNDS, {}) == 5
    running = crowd(a=(45, 45, 45), b=(1, 1, 1))
    assert running.room("a", 64, BOUNDS, {}) == 26


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300)).map(sorted).map(lambda c: c[::-1]),
    ),
    st.integers(1, 256),
)
# All wait for endpoints that are down, and their parts of the 16 ahead are rounded up to 18.
@example({"a": (5, 5, 0), "b": (6, 6, 0), "c": (6, 6, 0)}, 1)
def test_a_claim_never_takes_more_than_the_bounds_and_a_newcomer_is_never_shut_out(
    topics: dict[str, tuple[int, int, int]], limit: int
) -> None:
    made = crowd(**topics)
    for topic in (*topics, "new"):
        room = made.room(topic, limit, BOUNDS, {})
        assert 0 <= room <= BOUNDS.ahead + limit
        assert room <= max(BOUNDS.open - made.open.of(topic), 0)
    if made.inside.total < limit:
        assert made.room("new", limit, BOUNDS, {}) > 0
