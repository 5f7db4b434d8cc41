"""What a run of the producer proves of its requests, and when a target is older than it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from backfill.standing import LastBackfill, ProducerRun, Standing
from schemas.statuses import JobState

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DONE = ProducerRun("r1", JobState.DONE, NOON, by_kafka=True, rejected=1, published=6, skipped=4)


def test_only_a_whole_run_whose_messages_are_all_read_proves_that_each_request_has_its_end() -> None:
    assert DONE.proves(10)
    # One that was broken off; one with a limit, which repeats what others were to ask.
    assert not DONE.proves(11)
    assert not DONE.proves(9)
    # Inside Spark rows may be left open.
    assert not replace(DONE, by_kafka=False).proves(10)


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.DONE])
def test_an_open_or_cancelled_run_proves_nothing(state: JobState) -> None:
    run = replace(DONE, state=state)
    assert not run.proves(10)
    assert run.is_open is (state is not JobState.CANCELLED)


def test_a_target_is_behind_a_run_that_began_after_its_last_backfill_and_where_none_is_on_record() -> None:
    def behind(run: ProducerRun | None, minutes: int | None) -> bool:
        last = None if minutes is None else LastBackfill(NOON + timedelta(minutes=minutes), "7")
        return Standing(run, last, {}).behind

    assert (behind(DONE, 1), behind(DONE, -1), behind(DONE, None)) == (False, True, True)
    assert (behind(None, 1), behind(None, None)) == (False, True)
