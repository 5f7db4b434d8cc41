"""The limit of an endpoint, as answers, overloads and slow answers move it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.core.limiter import INITIAL, Limiter, Signal


def answered(limiter: Limiter, started: float, seconds: float, in_flight: int | None = None) -> int:
    inside = int(limiter.limit) if in_flight is None else in_flight
    return limiter.sample(Signal.ANSWERED, started=started, now=started + seconds, in_flight=inside)


def test_it_doubles_in_a_round_trip_until_it_reaches_the_most() -> None:
    limiter = Limiter(most=64, read_timeout=120)
    for trip in range(4):
        for _ in range(int(limiter.limit)):
            answered(limiter, float(trip), 0.1)
    assert limiter.limit == 64


def test_it_does_not_grow_while_it_is_not_in_use() -> None:
    limiter = Limiter(most=64, read_timeout=120)
    assert answered(limiter, 0, 0.1, in_flight=1) == INITIAL


def test_an_overload_cuts_once_for_all_that_were_in_flight() -> None:
    limiter = Limiter(most=256, read_timeout=120, limit=200)
    for nth in range(200):
        limiter.sample(Signal.OVERLOADED, started=0, now=1 + nth / 1000, in_flight=200)
    assert int(limiter.limit) == 140
    limiter.sample(Signal.OVERLOADED, started=2, now=3, in_flight=140)
    assert int(limiter.limit) == 98


def test_after_a_cut_it_grows_by_one_in_a_round_trip() -> None:
    limiter = Limiter(most=256, read_timeout=120, limit=100)
    limiter.sample(Signal.OVERLOADED, started=0, now=1, in_flight=100)
    for _ in range(70):
        answered(limiter, 2, 0.1, in_flight=70)
    assert 70.5 < limiter.limit < 71.1


def test_a_fault_of_a_row_says_nothing_of_the_limit() -> None:
    limiter = Limiter(most=64, read_timeout=120)
    assert limiter.sample(Signal.IGNORED, started=0, now=1, in_flight=8) == INITIAL


def test_a_server_that_queues_is_not_given_more_than_it_answers_in_time() -> None:
    """Two places, 20 s a call: what is in flight beyond two waits, and beyond twelve runs out of its 120 s."""
    limiter = Limiter(most=256, read_timeout=120)
    now, slowest = 0.0, 0.0
    queue = [0.0] * int(limiter.limit)
    for _ in range(200):
        now += 10
        started = queue.pop(0)
        slowest = max(slowest, now - started)
        limit = limiter.sample(Signal.ANSWERED, started=started, now=now, in_flight=len(queue) + 1)
        queue += [now] * max(0, limit - len(queue))
    assert slowest < 120
    assert 2 <= int(limiter.limit) <= 6


def test_a_slow_server_that_does_not_queue_is_used_to_the_full() -> None:
    """Each call takes 60 s of a time-out of 120 s, however many run."""
    limiter = Limiter(most=64, read_timeout=120)
    for trip in range(8):
        for _ in range(int(limiter.limit)):
            answered(limiter, 60.0 * trip, 60)
    assert limiter.limit == 64


@given(
    st.lists(
        st.tuples(st.sampled_from(Signal), st.floats(0, 1000), st.floats(0, 500), st.integers(0, 300)), max_size=200
    )
)
def test_it_stays_between_one_and_the_most(samples: list[tuple[Signal, float, float, int]]) -> None:
    limiter = Limiter(most=100, read_timeout=120)
    for signal, started, seconds, in_flight in samples:
        limit = limiter.sample(signal, started=started, now=started + seconds, in_flight=in_flight)
        assert 1 <= limit <= 100
