"""Retries are a fifth of all calls at most, and never stop for good."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.core.retry_budget import LEAST_A_SECOND, SHARE, RetryBudget


def drive(budget: RetryBudget, seconds: int, rate: int, *, since: float = 0.0) -> tuple[int, int]:
    """A server that fails every call: first calls fill what retries leave of a rate; gives calls and retries."""
    calls = retries = 0
    for nth in range(seconds * rate):
        now = since + nth / rate
        retries += budget.take(now)
        budget.called(now)
        calls += 1
    return calls, retries


def test_they_are_a_fifth_of_all_calls_when_every_call_fails() -> None:
    budget = RetryBudget()
    drive(budget, 60, 100)
    calls, retries = drive(budget, 60, 100, since=60.0)
    assert 0.9 * SHARE <= retries / calls <= 1.05 * SHARE


def test_a_few_failures_wait_for_nothing() -> None:
    budget = RetryBudget()
    assert all(budget.take(0.0) for _ in range(10))
    assert budget.ready_at(0.0) > 0.0


def test_the_last_rows_of_a_job_get_one_a_second_whatever_else_is_called() -> None:
    budget, now, left = RetryBudget(), 1000.0, 0
    while now < 1100.0:
        if budget.take(now):
            left += 1
        else:
            now = budget.ready_at(now)
    assert left >= 100 * LEAST_A_SECOND


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=200))
def test_what_is_said_to_be_ready_then_is(steps: list[tuple[float, bool]]) -> None:
    budget, now = RetryBudget(), 0.0
    for gap, retry in steps:
        now += gap
        at = budget.ready_at(now)
        assert now <= at <= now + 1.0 / LEAST_A_SECOND + 1e-9
        if retry:
            now = max(now, at + 1e-6)
            assert budget.take(now)
        else:
            budget.called(now)
        assert budget.tokens >= 0.0
