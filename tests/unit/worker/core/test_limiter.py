"""The number of calls at once: it grows while it is used, is cut once a flight, and stays in its range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.limiter import (
    CUT,
    CUT_AGAIN,
    DOUBLING_SECONDS,
    INITIAL,
    LONGEST_REST_SECONDS,
    QUIET_SECONDS,
    RECOVERY_SECONDS,
    Limiter,
    Signal,
)


def grown(most: int = 256) -> Limiter:
    """A limiter that has been in full use for long, and was last sampled at 1,000 s."""
    limiter = Limiter(most, read_timeout=120)
    for nth in range(1000):
        limiter.sample(Signal.ANSWERED, started=nth + 0.8, now=nth + 1.0, in_flight=most)
    return limiter


def in_use(limiter: Limiter, since: float, seconds: float, trip: float = 0.2) -> float:
    """Answers for a while, ten in a trip; gives the limit."""
    for nth in range(1, int(seconds / trip * 10) + 1):
        now = since + nth * trip / 10
        limiter.sample(Signal.ANSWERED, started=now - trip, now=now, in_flight=int(limiter.limit))
    return limiter.limit


def test_it_begins_small_and_never_above_what_is_allowed() -> None:
    assert Limiter(256, 120).limit == INITIAL
    assert Limiter(3, 120).limit == 3


def test_it_doubles_in_a_while_until_it_reaches_the_most() -> None:
    limiter = Limiter(256, 120)
    assert in_use(limiter, 0.0, DOUBLING_SECONDS) == pytest.approx(2 * INITIAL, rel=0.05)
    assert in_use(limiter, DOUBLING_SECONDS, DOUBLING_SECONDS) == pytest.approx(4 * INITIAL, rel=0.05)
    assert grown().limit == 256


def test_where_calls_are_long_it_doubles_in_a_round_trip() -> None:
    limiter = Limiter(256, 1200)
    assert in_use(limiter, 0.0, 60.0, trip=60.0) == pytest.approx(2 * INITIAL, rel=0.1)


def test_it_grows_only_while_it_is_used() -> None:
    limiter = Limiter(256, 120)
    for nth in range(100):
        limiter.sample(Signal.ANSWERED, started=nth, now=nth + 1, in_flight=INITIAL // 2 - 1)
    assert limiter.limit == INITIAL


def test_after_a_cut_most_comes_back_soon_then_one_in_a_round_trip_then_it_doubles() -> None:
    limiter = grown(1000)
    limiter.limit = 100.0
    limiter.sample(Signal.OVERLOADED, started=1000, now=1001, in_flight=100)
    assert limiter.limit == pytest.approx(85)
    assert in_use(limiter, 1001, RECOVERY_SECONDS) == pytest.approx(95, abs=0.5)
    after_trips = in_use(limiter, 1001 + RECOVERY_SECONDS, 2.0)
    assert 95 < after_trips < 97
    quiet = 1001 + RECOVERY_SECONDS + QUIET_SECONDS
    assert in_use(limiter, quiet, DOUBLING_SECONDS) > 1.8 * after_trips


def test_one_bad_second_with_two_hundred_calls_in_flight_is_one_cut() -> None:
    limiter = grown()
    for nth in range(200):
        limiter.sample(Signal.OVERLOADED, started=1000 + nth / 200, now=1001 + nth / 200, in_flight=200)
    assert limiter.limit == 256 * CUT


def test_an_overload_of_a_call_that_began_after_the_cut_is_news_and_cuts_deeper() -> None:
    limiter = grown()
    limiter.sample(Signal.OVERLOADED, started=1000, now=1001, in_flight=200)
    limiter.sample(Signal.OVERLOADED, started=1001.5, now=1002, in_flight=150)
    assert limiter.limit == 256 * CUT * CUT_AGAIN


def test_who_is_refused_his_only_call_stays_away_longer_and_longer_until_an_answer() -> None:
    limiter = Limiter(1, 120)
    rests = []
    for nth in range(8):
        limiter.sample(Signal.OVERLOADED, started=nth, now=nth + 0.5, in_flight=1)
        rests.append(limiter.rest)
    assert rests == [0.5, 1, 2, 4, 8, LONGEST_REST_SECONDS, LONGEST_REST_SECONDS, LONGEST_REST_SECONDS]
    limiter.sample(Signal.ANSWERED, started=9, now=9.5, in_flight=1)
    assert limiter.rest == 0
    assert limiter.limit == 1


def test_another_most_bounds_it_at_once() -> None:
    limiter = grown()
    limiter.bound(10)
    assert limiter.limit == 10
    limiter.bound(20)
    assert in_use(limiter, 1001, 10) == 20


def test_what_says_nothing_changes_nothing() -> None:
    limiter = grown()
    limiter.sample(Signal.IGNORED, started=1000, now=1001, in_flight=256)
    assert limiter.limit == 256


def test_a_server_that_queues_is_known_by_its_latency() -> None:
    limiter = Limiter(256, read_timeout=20)
    for nth in range(64):
        limiter.sample(Signal.ANSWERED, started=nth, now=nth + 1.0, in_flight=256)
    before = limiter.limit
    for nth in range(30):
        limiter.sample(Signal.ANSWERED, started=100 + nth, now=115 + nth, in_flight=256)
    assert limiter.limit < before


def test_a_server_that_is_merely_slow_is_not_held_back() -> None:
    limiter = Limiter(64, read_timeout=120)
    for nth in range(500):
        limiter.sample(Signal.ANSWERED, started=nth, now=nth + 100.0, in_flight=64)
    assert limiter.limit == 64


SAMPLES = st.lists(
    st.tuples(st.sampled_from(Signal), st.floats(0, 200), st.floats(0, 500), st.integers(0, 300)), max_size=100
)


@given(SAMPLES, st.integers(1, 300), st.floats(0.1, 600))
def test_it_stays_in_its_range(samples: list[tuple[Signal, float, float, int]], most: int, read: float) -> None:
    limiter, now = Limiter(most, read), 0.0
    for signal, gap, seconds, in_flight in samples:
        now += gap
        limit = limiter.sample(signal, started=max(now - seconds, 0.0), now=now, in_flight=in_flight)
        assert 1 <= limit <= most
        assert 1.0 <= limiter.limit <= most
