"""The number of calls at once: it grows while it is used, is cut once a flight, and stays in its range."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.core.limiter import CUT, INITIAL, Limiter, Signal


def grown(most: int = 256) -> Limiter:
    limiter = Limiter(most, read_timeout=120)
    for nth in range(2 * most):
        limiter.sample(Signal.ANSWERED, started=nth * 1.0, now=nth + 0.1, in_flight=most)
    return limiter


def test_it_begins_small_and_never_above_what_is_allowed() -> None:
    assert Limiter(256, 120).limit == INITIAL
    assert Limiter(3, 120).limit == 3


def test_it_doubles_in_a_round_trip_until_the_first_cut() -> None:
    limiter = Limiter(256, 120)
    for _ in range(INITIAL):
        limiter.sample(Signal.ANSWERED, started=0, now=1, in_flight=INITIAL)
    assert limiter.limit == 2 * INITIAL
    assert grown().limit == 256


def test_it_grows_only_while_it_is_used() -> None:
    limiter = Limiter(256, 120)
    for _ in range(100):
        limiter.sample(Signal.ANSWERED, started=0, now=1, in_flight=INITIAL // 2 - 1)
    assert limiter.limit == INITIAL


def test_after_a_cut_it_grows_by_one_in_a_round_trip() -> None:
    limiter = grown()
    cut = limiter.sample(Signal.OVERLOADED, started=1000, now=1001, in_flight=200)
    before = limiter.limit
    for _ in range(cut):
        limiter.sample(Signal.ANSWERED, started=1002, now=1003, in_flight=cut)
    assert before + 0.9 < limiter.limit < before + 1.1


def test_one_bad_second_with_two_hundred_calls_in_flight_is_one_cut() -> None:
    limiter = grown()
    for nth in range(200):
        limiter.sample(Signal.OVERLOADED, started=1000 + nth / 200, now=1001 + nth / 200, in_flight=200)
    assert limiter.limit == 256 * CUT


def test_an_overload_of_a_call_that_began_after_the_cut_is_news() -> None:
    limiter = grown()
    limiter.sample(Signal.OVERLOADED, started=1000, now=1001, in_flight=200)
    limiter.sample(Signal.OVERLOADED, started=1001.5, now=1002, in_flight=150)
    assert limiter.limit == 256 * CUT * CUT


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
    for nth in range(200):
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
