"""What a canary says of the job, as tables: go on, wait, or stop and why."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.canary import Limits, Seen, Word, affordable, judge
from schemas.estimate import Forecast, Range
from schemas.job import Job
from schemas.statuses import JobState, PausedFor

LIMITS = Limits(max_failed=0.05, timeout_s=600)


def seen(**changes: Any) -> Seen:
    return Seen(**{"rows": 200, "published": 200, **changes})


@pytest.mark.parametrize(
    ("now", "word", "why"),
    [
        (seen(), Word.WAIT, ""),
        (seen(succeeded=199), Word.WAIT, ""),
        (seen(succeeded=200), Word.GO, ""),
        # The first rows, one of each route, are waited for alone.
        (seen(published=2, succeeded=1), Word.WAIT, ""),
        (seen(published=2, succeeded=2), Word.GO, ""),
        (seen(published=2, succeeded=1, failed={"refused": 1}), Word.GO, ""),
        (seen(rows=10, published=1, failed={"refused": 1}), Word.STOP, "1 of 10 rows failed"),
        # Five in a hundred are allowed, and one more is not, whatever is still to come.
        (seen(succeeded=190, failed={"truncated": 10}), Word.GO, ""),
        (seen(succeeded=180, failed={"truncated": 10}), Word.WAIT, ""),
        (seen(succeeded=9, failed={"truncated": 3, "invalid_output": 8}), Word.STOP, "8 invalid_output, 3 truncated"),
        # A fault of the run is nobody's failed row.
        (seen(refusing=["h:1 refuses every call (status 401; 5 of this run)"]), Word.STOP, "status 401"),
        (seen(succeeded=200, refusing=["h:1 refuses every call"]), Word.STOP, "Check the key"),
        # What somebody has said of the run.
        (seen(state=JobState.CANCELLED), Word.STOP, "was cancelled"),
        (seen(state=JobState.PAUSED, paused_for=PausedFor.BUDGET), Word.STOP, "budget is used up"),
        (seen(state=JobState.PAUSED, paused_for=PausedFor.OPERATOR, seconds=9e9), Word.WAIT, ""),
        # When the time is over, rows without an end count as failed.
        (seen(succeeded=189, seconds=599.9), Word.WAIT, ""),
        (seen(succeeded=189, seconds=600), Word.STOP, "only 189 of 200 rows have ended"),
        (seen(succeeded=190, seconds=600), Word.GO, ""),
        (seen(succeeded=190, failed={"refused": 2}, seconds=600), Word.GO, ""),
        (seen(succeeded=189, failed={"refused": 2}, seconds=600), Word.STOP, "2 of them failed"),
        (seen(published=2, seconds=600), Word.STOP, "only 0 of 200"),
        (seen(seconds=600, workers=0), Word.STOP, "no worker is running"),
        (seen(seconds=5, workers=0), Word.WAIT, ""),
    ],
)
def test_what_is_seen_decides(now: Seen, word: Word, why: str) -> None:
    verdict = judge(now, LIMITS)
    assert (verdict.word, why in verdict.why) == (word, True), verdict
    assert bool(verdict.why) is (word is Word.STOP)


@given(st.integers(1, 500), st.integers(0, 500), st.integers(0, 500), st.floats(0, 1))
def test_a_whole_canary_passes_exactly_when_its_failed_share_is_allowed(
    rows: int, succeeded: int, failed: int, max_failed: float
) -> None:
    succeeded = min(succeeded, rows)
    failed = min(failed, rows - succeeded)
    verdict = judge(
        Seen(rows, rows, succeeded, {"refused": failed} if failed else {}, seconds=600), Limits(max_failed, 600)
    )
    lost = rows - succeeded
    assert (verdict.word is Word.STOP) is (lost > max_failed * rows)


@pytest.mark.parametrize(
    ("usd", "tokens", "limits", "why"),
    [
        (Range(8, 10, 12), Range(80, 100, 120), {}, ""),
        (Range(8, 10, 12), None, {"usd": Decimal(11)}, ""),
        # The upper end may lie above the budget: the budget is a hard cap anyway.
        (Range(8, 9.9, 12), None, {"usd": Decimal(11)}, ""),
        (
            Range(8, 10.1, 12),
            None,
            {"usd": Decimal(11)},
            "projected usd of the run, 11.1000 (95%: 9.0000 to 13.0000)",
        ),
        (None, Range(80, 100, 120), {"usd": Decimal(1)}, ""),
        (None, Range(80, 100, 120), {"tokens": 149}, "exceed budget.tokens 149"),
        (None, Range(80, 100, None), {"tokens": 149}, "(95%: 130 to unknown)"),
        (None, Range(80, 100, 120), {"tokens": 150}, ""),
        (Range(1, 1, 1), Range(80, 100, 120), {"usd": Decimal(5), "tokens": 100}, "budget.tokens"),
    ],
)
def test_what_is_spent_and_what_is_projected_must_fit(
    usd: Range | None, tokens: Range | None, limits: dict[str, Any], why: str
) -> None:
    verdict = affordable(Forecast(1000, "a canary", usd, tokens), Decimal(1), 50, Limits(0.05, 600, **limits))
    assert why in verdict.why
    assert verdict.word is (Word.STOP if why else Word.GO)


def test_limits_come_from_the_job_file() -> None:
    job = Job.model_validate(
        {
            "job": "reviews",
            "source": {"format": "parquet", "path": "rows"},
            "id": "id",
            "prompt": {"template": "{text}"},
            "target": {"format": "delta", "path": "labelled"},
            "budget": {"usd": 0.1},
            "canary": {"max_failed": 0.2},
        }
    )
    assert Limits.of(job) == Limits(0.2, 600, Decimal("0.1"), None)
