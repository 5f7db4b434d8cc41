"""What an order changes of which run, as tables."""

from __future__ import annotations

from decimal import Decimal

import pytest

from control.jobs.decisions import UNRECORDED, Budget, Order, Run, changes, concerned, raised, similar
from control.jobs.reporting import line, warning
from schemas.statuses import JobState, PausedFor

CANARY, RUNNING, PAUSED, CANCELLED, DONE = JobState
EXHAUSTED = Run("r1", PAUSED, paused_for=PausedFor.BUDGET)


def after(order: Order, run: Run) -> JobState | None:
    (change,) = changes(order, [run])
    return change.after


@pytest.mark.parametrize(
    ("state", "pause", "resume", "cancel"),
    [
        (CANARY, PAUSED, None, CANCELLED),
        (RUNNING, PAUSED, None, CANCELLED),
        (PAUSED, None, RUNNING, CANCELLED),
        (CANCELLED, None, None, None),
        (DONE, None, None, None),
        # A run that workers have met and nobody has recorded.
        (None, PAUSED, None, CANCELLED),
    ],
)
def test_what_becomes_of_a_run(
    state: JobState | None, pause: JobState | None, resume: JobState | None, cancel: JobState | None
) -> None:
    run = Run("r1", state)
    assert [after(order, run) for order in (Order.PAUSE, Order.RESUME, Order.CANCEL)] == [pause, resume, cancel]


@pytest.mark.parametrize(
    ("state", "pause", "resume", "cancel"),
    [
        (None, PAUSED, None, CANCELLED),
        (RUNNING, PAUSED, None, CANCELLED),
        (PAUSED, None, RUNNING, CANCELLED),
        (CANCELLED, PAUSED, None, CANCELLED),
    ],
)
def test_what_becomes_of_messages_that_name_no_recorded_run(
    state: JobState | None, pause: JobState | None, resume: JobState | None, cancel: JobState | None
) -> None:
    run = Run(UNRECORDED, state)
    assert [after(order, run) for order in (Order.PAUSE, Order.RESUME, Order.CANCEL)] == [pause, resume, cancel]


def test_an_order_is_for_all_runs_and_the_messages_of_none_or_for_one() -> None:
    runs = [Run("r1", RUNNING, "p.mine"), Run("r2", DONE, "p.later")]
    assert concerned(runs, None, "p.reviews") == [*runs, Run(UNRECORDED, topic="p.later")]
    assert concerned(runs, "r2", "p.reviews") == [runs[1]]
    assert concerned([], None, "p.reviews") == [Run(UNRECORDED, topic="p.reviews")]
    whole = Run(UNRECORDED, PAUSED, "p.mine")
    assert concerned([whole, *runs], None, "p.reviews") == [*runs, whole]


def test_a_budget_is_raised_of_the_one_run_that_is_meant() -> None:
    budget = Budget(usd=Decimal(80))
    paused = Run("r1", PAUSED, paused_for=PausedFor.BUDGET, budget_usd=Decimal(50), spent_usd=Decimal("50.1"))
    assert raised([paused], budget) == paused
    assert raised([paused, Run("r2", RUNNING), Run(UNRECORDED)], budget) == paused
    assert "2 of them" in str(raised([paused, Run("r2", PAUSED)], budget))
    assert "none of them" in str(raised([Run(UNRECORDED)], budget))
    assert "is cancelled" in str(raised([Run("r1", CANCELLED)], budget))


@pytest.mark.parametrize(
    ("budget", "word"),
    [
        (Budget(usd=Decimal(50)), "--budget-usd 50 "),
        (Budget(usd=Decimal("50.05")), "--budget-usd 50.05 "),
        (Budget(tokens=1000), "--budget-tokens 1000 "),
        (Budget(usd=Decimal(60), tokens=900), "--budget-tokens 900 "),
    ],
)
def test_a_budget_that_is_not_above_what_is_there_or_spent_is_refused(budget: Budget, word: str) -> None:
    run = Run("r1", PAUSED, None, PausedFor.BUDGET, Decimal(50), 1000, Decimal("50.1"), 900)
    assert str(raised([run], budget)).startswith(word)


def test_a_run_without_a_budget_may_be_given_one() -> None:
    assert isinstance(raised([Run("r1", RUNNING)], Budget(tokens=10)), Run)
    assert not Budget()


NOBODYS = "reviews (messages that name no recorded run)"


@pytest.mark.parametrize(
    ("order", "run", "text"),
    [
        (Order.PAUSE, Run("r1", RUNNING), "reviews run r1: running -> paused"),
        (Order.PAUSE, Run("r1", DONE), "reviews run r1: is done, nothing to pause"),
        (Order.RESUME, EXHAUSTED, "reviews run r1: paused (its budget is used up) -> running"),
        (Order.CANCEL, Run(UNRECORDED), f"{NOBODYS}: cancelled"),
        (Order.CANCEL, Run(UNRECORDED, CANCELLED), f"{NOBODYS}: cancelled again, for what was published since"),
        (Order.RESUME, Run(UNRECORDED), f"{NOBODYS}: is as it was, nothing to resume"),
    ],
)
def test_each_line_says_what_was_and_what_is(order: Order, run: Run, text: str) -> None:
    (change,) = changes(order, [run])
    assert line("reviews", order, change) == text


def test_a_run_that_was_paused_for_its_budget_is_warned_of() -> None:
    assert warning(Run("r1", PAUSED, paused_for=PausedFor.OPERATOR)) is None
    assert "--budget-usd" in str(warning(EXHAUSTED))


def test_similar_names_are_found() -> None:
    assert similar("reviws", ["reviews", "tickets", "reviews-2"]) == ["reviews", "reviews-2"]
    assert similar("x", ["reviews"]) == []
