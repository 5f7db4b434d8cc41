"""What the exporter makes of the rows it reads, and how many readings it takes: as tables, without a database."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from typer.testing import CliRunner

from control.cli import app
from control.database import DatabaseUnreachableError, SchemaMissingError
from control.exporter.figures import MOST_JOBS, OTHER, REASONS, UNKNOWN, Facts, Figures, figures
from control.exporter.series import series
from control.exporter.sharing import EVERY_SECONDS, Shared
from schemas.statuses import JobState, Reason

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOTHING = Figures({}, 0, 0)


def run(job: str = "reviews", name: str = "r1", ago: float = 60, **values: Any) -> dict[str, Any]:
    told = {"state": "running", "published": 0, "budget_usd": None, "created_at": NOW - timedelta(seconds=ago)}
    return {"job": job, "run": name, **told, **values}


def rows(number: int, status: str = "succeeded", job: str = "reviews", **values: Any) -> dict[str, Any]:
    return {
        "job": job,
        "status": status,
        "rows": number,
        "reason": None,
        "since": 0,
        "oldest_seconds": None,
        **values,
    }


def cost(name: str, low: str, high: str) -> dict[str, Any]:
    return {"job": "reviews", "run": name, "low_usd": Decimal(low), "high_usd": Decimal(high)}


def facts(*runs: dict[str, Any], **found: Any) -> Facts:
    nothing: dict[str, Any] = {"rows": [], "costs": [], "backfills": [], "workers": 0, "circuits": 0}
    return Facts(NOW, runs, **{**nothing, **found})


def samples(found: Figures | None) -> dict[tuple[str, ...], float]:
    return {(s.name, *s.labels.values()): s.value for family in series(found) for s in family.samples}


def test_a_job_that_has_just_begun_has_every_series_at_nothing() -> None:
    found = samples(figures(facts(run())))
    per_job = {name: value for name, value in found.items() if name[1:2] == ("reviews",)}
    assert {name[2] for name in per_job if name[0] == "headrace_job_failed_total"} == {*map(str, Reason), UNKNOWN}
    assert {name[2] for name in per_job if name[0] == "headrace_job_state"} == set(map(str, JobState))
    assert [name for name, value in per_job.items() if value] == [("headrace_job_state", "reviews", "running")]
    plain = {name[0].removeprefix("headrace_job_") for name in per_job if len(name) == 2}
    assert plain == set(
        "backlog done_total published_total spend_low_usd spend_high_usd oldest_pending_seconds".split()
    )
    assert found["headrace_exporter_up",] == 1


def test_without_figures_it_says_that_and_nothing_else() -> None:
    assert samples(None) == {("headrace_exporter_up",): 0}


@pytest.mark.parametrize(
    ("runs", "counted", "backlog"),
    [
        ([run(published=10)], [rows(3, since=3), rows(2, "failed", since=2, reason="timeout")], 5),
        # What was answered before the newest run began was not published again.
        ([run(name="r0", ago=90, published=9), run(published=4)], [rows(9), rows(1, since=1)], 3),
        # Rows of the run that were answered by the message of an earlier one.
        ([run(published=2)], [rows(5, since=5)], 0),
        # The producer has not told its counts yet.
        ([run()], [rows(7, "claimed")], 7),
        # Nobody recorded the run.
        ([], [rows(7, "claimed"), rows(5)], 7),
        ([run(name="", state="paused")], [rows(7, "claimed")], 7),
        ([run(published=10, state="done")], [rows(3, since=3)], 0),
        ([run(published=10, state="cancelled")], [rows(1, "claimed")], 0),
    ],
)
def test_the_backlog_is_what_the_newest_run_lacks(
    runs: list[dict[str, Any]], counted: list[dict[str, Any]], backlog: int
) -> None:
    assert figures(facts(*runs, rows=counted)).jobs["reviews"].backlog == backlog


def test_the_budget_is_told_with_what_its_own_run_has_spent() -> None:
    spent = [cost("r0", "30", "40"), cost("r1", "1.5", "2.5")]
    runs = [run(name="r0", ago=90, budget_usd=Decimal(50), state="done"), run(budget_usd=Decimal(5))]
    job = figures(facts(*runs, costs=spent)).jobs["reviews"]
    assert (job.low_usd, job.high_usd, job.budget_usd, job.budget_spent_usd) == (31.5, 42.5, 5.0, 2.5)
    ended = figures(facts(run(budget_usd=Decimal(5), state="done"), costs=spent)).jobs["reviews"]
    assert (ended.budget_usd, ended.budget_spent_usd) == (None, None)


def test_the_oldest_that_waits_is_begun_or_else_as_old_as_its_run() -> None:
    def oldest(*counted: dict[str, Any], published: int = 9) -> float:
        return figures(facts(run(published=published), rows=counted)).jobs["reviews"].oldest_seconds

    assert oldest(rows(1, "claimed", oldest_seconds=12.5), rows(1, oldest_seconds=50.0)) == 12.5
    assert oldest() == 60.0
    assert oldest(rows(9, since=9, oldest_seconds=50.0)) == 0.0


def test_ages_of_backfills_and_failures_without_a_reason_are_told() -> None:
    counted = [rows(2, "failed", reason="timeout"), rows(1, "failed")]
    found = samples(
        figures(
            facts(rows=counted, backfills=[{"job": "reviews", "seconds": 77.0, "unjoined": 4}], workers=3, circuits=1)
        )
    )
    assert found["headrace_job_backfill_age_seconds", "reviews"] == 77
    assert found["headrace_job_unjoined", "reviews"] == 4
    assert found["headrace_job_failed_total", "reviews", "timeout"] == 2
    assert found["headrace_job_failed_total", "reviews", UNKNOWN] == 1
    assert (found["headrace_workers_alive",], found["headrace_circuits_open",]) == (3, 1)
    assert not any(value for name, value in found.items() if name[0] == "headrace_job_state")


def test_jobs_past_the_hundredth_are_one_and_nothing_is_lost() -> None:
    names = [f"job-{n:03}" for n in range(MOST_JOBS + 30)]
    # The oldest has something to do, the others are shown by their age.
    runs = [run(job, ago=n, published=5 if n == 129 else 0, budget_usd=Decimal(1)) for n, job in enumerate(names)]
    counted = [rows(2, job=job) for job in names] + [rows(1, "failed", job=job, reason="timeout") for job in names]
    found = figures(facts(*runs, rows=counted))
    assert len(found.jobs) == MOST_JOBS + 1
    assert {*names[: MOST_JOBS - 1], names[129], OTHER} == found.jobs.keys()
    assert sum(job.done for job in found.jobs.values()) == 2 * len(names)
    other = found.jobs[OTHER]
    assert (other.done, other.failed["timeout"], other.budget_usd) == (60, 30, None)
    assert len(figures(facts(*runs[:MOST_JOBS])).jobs) == MOST_JOBS


def test_a_job_whose_name_is_other_is_counted_among_the_others() -> None:
    names = [OTHER, *(f"job-{n:03}" for n in range(MOST_JOBS + 5))]
    found = figures(facts(rows=[rows(1, job=job) for job in names]))
    assert sum(job.done for job in found.jobs.values()) == len(names)
    assert len(found.jobs) <= MOST_JOBS + 1


def test_label_values_are_closed() -> None:
    found = {name[2] for name in samples(figures(facts(run()))) if len(name) == 3}
    assert found == {*REASONS, *map(str, JobState)}


class Source:
    """Readings that are counted; `answer` is what they give, `clock` a clock that is moved."""

    def __init__(self) -> None:
        self.now, self.takes, self.readings = 100.0, 0.0, 0
        self.error: Exception | None = None
        self.told: list[str] = []
        self.shared = Shared(self.read, lambda: self.now, self.told.append)

    def read(self) -> Figures:
        self.readings += 1
        self.now += self.takes
        if self.error is not None:
            raise self.error
        return NOTHING


def test_there_is_one_reading_in_five_seconds() -> None:
    source = Source()
    for moment, readings in ((0, 1), (EVERY_SECONDS - 0.1, 1), (EVERY_SECONDS, 2), (EVERY_SECONDS + 4, 2), (10, 3)):
        source.now = 100.0 + moment
        assert source.shared.latest() is NOTHING
        assert source.readings == readings


def test_a_reading_that_takes_long_is_followed_by_a_long_rest() -> None:
    source = Source()
    source.takes = 4.0
    source.shared.latest()
    source.now += 35
    source.shared.latest()
    assert source.readings == 1
    source.now += 1
    source.shared.latest()
    assert source.readings == 2


def test_twenty_at_once_share_one_reading() -> None:
    started, go = threading.Event(), threading.Event()
    taken: list[int] = []

    def read() -> Figures:
        taken.append(1)
        started.set()
        assert go.wait(10)
        return NOTHING

    shared = Shared(read, lambda: 0.0, lambda _: None)
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(shared.latest) for _ in range(20)]
        assert started.wait(10)
        go.set()
        assert all(each.result(10) is NOTHING for each in asked)
    assert len(taken) == 1


def test_trouble_is_told_once_and_its_end_too() -> None:
    source = Source()
    for error in (None, DatabaseUnreachableError("gone"), DatabaseUnreachableError("gone"), ValueError("sk-1"), None):
        source.error = error
        assert (source.shared.latest() is None) is (error is not None)
        source.now += EVERY_SECONDS
    assert source.told == [
        "database: gone. Check DATABASE_URL and that the server is up.",
        "figures cannot be made: ValueError",
        "database: it can be read again",
    ]
    source.error = SchemaMissingError("its schema is at revision none")
    source.shared.latest()
    assert "headrace migrate" in source.told[-1]


def test_wrong_settings_are_named_at_the_start_without_the_secret() -> None:
    def ended(**settings: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["exporter"], env=settings)
        return done.exit_code, done.stderr

    code, said = ended(EXPORTER_PORT="many")
    assert (code, "EXPORTER_PORT" in said) == (2, True)
    code, said = ended(DATABASE_URL="postgresql://headrace:hunter%2@db/x")
    assert (code, "DATABASE_URL" in said, "hunter" in said) == (2, True, False)
