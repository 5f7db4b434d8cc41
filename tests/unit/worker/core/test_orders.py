"""What orders say of a prompt, whichever run it names; which topics are parked; how priorities weigh."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from schemas.statuses import JobState
from worker.core.orders import Orders, RunState, TopicState, Word, weight

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE, AFTER = NOON - timedelta(seconds=1), NOON + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (JobState.CANARY, Word.GO),
        (JobState.RUNNING, Word.GO),
        (JobState.PAUSED, Word.WAIT),
        (JobState.CANCELLED, Word.END),
        (JobState.DONE, Word.GO),
    ],
)
def test_a_message_obeys_the_run_it_names(state: JobState, word: Word) -> None:
    orders = Orders([RunState("reviews", "r1", state, NOON)])
    assert orders.word("reviews", "r1", BEFORE) is word
    assert orders.word("reviews", "r1", AFTER) is word
    assert orders.word("reviews", "r2", BEFORE) is Word.GO
    assert orders.word("tickets", "r1", BEFORE) is Word.GO
    assert orders.word("reviews", None, BEFORE) is Word.GO


def test_without_orders_everything_goes() -> None:
    assert Orders().word("reviews", None, None) is Word.GO
    assert Orders().parked == frozenset()


@pytest.mark.parametrize("run", [None, "nobody-recorded-this"])
def test_what_names_no_recorded_run_obeys_the_order_for_the_whole_job(run: str | None) -> None:
    paused = Orders([RunState("reviews", "", JobState.PAUSED)])
    assert paused.word("reviews", run, BEFORE) is Word.WAIT
    assert paused.word("tickets", run, BEFORE) is Word.GO
    cancelled = Orders([RunState("reviews", "", JobState.CANCELLED, NOON)])
    assert cancelled.word("reviews", run, BEFORE) is Word.END
    assert cancelled.word("reviews", run, NOON) is Word.END
    assert cancelled.word("reviews", run, AFTER) is Word.GO
    assert cancelled.word("reviews", run, None) is Word.GO


def test_an_order_for_the_whole_job_does_not_touch_a_recorded_run() -> None:
    whole = RunState("reviews", "", JobState.CANCELLED, NOON)
    orders = Orders([whole, RunState("reviews", "later", JobState.RUNNING)])
    assert orders.word("reviews", "later", BEFORE) is Word.GO


def test_what_was_cancelled_before_a_pause_stays_cancelled() -> None:
    orders = Orders([RunState("reviews", "", JobState.PAUSED, NOON)])
    assert orders.word("reviews", None, BEFORE) is Word.END
    assert orders.word("reviews", None, AFTER) is Word.WAIT


def test_a_topic_is_parked_when_all_its_open_runs_are_paused_and_it_is_nobodys_in_particular() -> None:
    topics = [
        TopicState("p.a", paused=True),
        TopicState("p.b", paused=False, priority=2),
        TopicState("p", paused=True),
    ]
    orders = Orders(topics=topics, shared=["p"])
    assert orders.parked == {"p.a"}
    assert orders.weights == {"p.a": 1.0, "p.b": 4.0, "p": 1.0}


def test_priorities_weigh_by_powers_of_two_within_bounds() -> None:
    assert [weight(priority) for priority in (-100, -5, -1, 0, 1, 2, 5, 100)] == [
        1 / 32,
        1 / 32,
        0.5,
        1,
        2,
        4,
        32,
        32,
    ]
