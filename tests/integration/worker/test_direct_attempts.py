"""Attempts at the rows of one Spark task, side by side and one after another: each row is asked once."""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from schemas.fingerprint import fingerprint
from schemas.statuses import ExitCode
from tests.simulated import Simulated, simulated
from worker.attempt import Attempt
from worker.direct import Part, settings_for
from worker.feed import Row, in_slices
from worker.outcomes import OPEN, SUPERSEDED, Outcome

pytestmark = pytest.mark.integration

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
ATTEMPT = 2**32
Between = Callable[[int], None]


@dataclass
class Task:
    """One task's rows, whoever attempts them; `told` is what the last attempt told."""

    database: str
    endpoint: Simulated
    run: str = "run-1"
    started: datetime = STARTED
    job: str = field(default_factory=lambda: f"job-{uuid.uuid4().hex[:8]}")
    environ: dict[str, str] = field(default_factory=dict)

    def rows(self, number: int, says: str = "What of {}?") -> list[Row]:
        return [self.row(f"r-{nth}", says.format(nth)) for nth in range(number)]

    def row(self, id_: str, text: str, **fields: Any) -> Row:
        request = fingerprint(None, [{"role": "user", "content": text}], None, None)
        head = {"id": id_, "prompt": text, "job": self.job, "run": self.run, "fingerprint": request}
        head["published_at"] = self.started.isoformat()
        return Row(id_, json.dumps(head | fields).encode(), request)

    def attempt(self, number: int = 0, **environ: str) -> Attempt:
        own = {"LLM_BASE_URL": self.endpoint.base_url, "LLM_MODEL": "simulated", **self.environ, **environ}
        return Attempt(Part(self.job, self.run, number * ATTEMPT), settings_for(own, SecretStr(self.database)))

    def record(self, state: str = "running") -> None:
        self.sql("INSERT INTO headrace.jobs (job, run, state) VALUES (%s, %s, %s)", self.job, self.run, state)

    def order(self, state: str) -> None:
        self.sql("UPDATE headrace.jobs SET state = %s, finished_at = now() WHERE job = %s", state, self.job)

    def ended(self) -> int:
        query = "SELECT count(*) FROM headrace.results WHERE job = %s AND status <> 'claimed'"
        return int(self.sql(query, self.job)[0][0])

    def repeats(self) -> dict[str, int]:
        calls = self.endpoint.stats(ids=True)["ids"]
        return {id_: entry["calls"] for id_, entry in calls.items() if entry["calls"] != 1}

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []


def told_by(attempt: Attempt, rows: Sequence[Row], between: Between = lambda _: None) -> list[Outcome]:
    """Do as a task does: hand rows in, slice by slice, and take what is told."""
    told: list[Outcome] = []
    with attempt:
        for part in in_slices(rows):
            for outcomes in attempt.answer(part):
                told += outcomes
                between(len(told))
        for outcomes in attempt.finish():
            told += outcomes
            between(len(told))
    return told


def ends(told: Sequence[Outcome]) -> Counter[tuple[str, str | None]]:
    return Counter((outcome.status, outcome.reason) for outcome in told)


@pytest.fixture
def task(database: str) -> Iterator[Task]:
    with simulated(latency_ms=20) as endpoint:
        yield Task(database, endpoint)


def test_every_row_has_its_outcome_and_no_thread_stays(task: Task) -> None:
    before = threading.enumerate()
    told = told_by(task.attempt(), task.rows(1500))
    assert ends(told) == {("succeeded", None): 1500}
    assert len({outcome.id for outcome in told}) == 1500
    assert all(o.prompt_tokens and o.completion_tokens and o.latency_ms is not None and o.retries == 0 for o in told)
    assert task.repeats() == {}
    assert threading.enumerate() == before
    assert told_by(task.attempt(1), []) == []


def test_two_attempts_at_once_share_the_rows_and_both_tell_all_of_them(task: Task) -> None:
    rows = task.rows(600)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(told_by, task.attempt(number), rows) for number in (0, 1)]
        found = [ends(told.result()) for told in both]
    assert found == [{("succeeded", None): 600}] * 2
    assert task.repeats() == {}
    assert len(task.sql("SELECT DISTINCT worker FROM headrace.results WHERE job = %s", task.job)) == 2


def test_an_attempt_that_fails_after_30_rows_is_gone_on_with_and_nothing_is_asked_twice(task: Task) -> None:
    rows = task.rows(400)

    def fail(told: int) -> None:
        if told >= 30:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        told_by(task.attempt(0, MAX_IN_FLIGHT="8"), rows, fail)
    done = task.ended()
    assert 30 <= done < 400
    assert ends(told_by(task.attempt(1), rows)) == {("succeeded", None): 400}
    assert task.repeats() == {}
    assert task.sql("SELECT count(*) FROM headrace.attempts WHERE job = %s AND billed = 'maybe'", task.job) == [(0,)]


def test_a_generator_that_is_closed_in_the_middle_leaves_nothing_claimed(task: Task) -> None:
    rows = task.rows(400)

    def outcomes() -> Generator[list[Outcome], None, None]:
        with task.attempt(0, MAX_IN_FLIGHT="8") as attempt:
            for part in in_slices(rows):
                yield from attempt.answer(part)
            yield from attempt.finish()

    generator = outcomes()
    next(outcomes for outcomes in generator if outcomes)
    generator.close()
    claimed = "SELECT count(*) FROM headrace.results WHERE job = %s AND status = 'claimed' AND claimed_until > now()"
    assert task.sql(claimed, task.job) == [(0,)]


def test_a_wrong_key_leaves_the_rows_open_after_a_while_and_the_other_tasks_hear_of_it(task: Task) -> None:
    task.record()
    task.endpoint.set_script({"api_keys": ["sk-right"], "rules": []})
    attempt = task.attempt(DIRECT_PATIENCE_SECONDS="4", LLM_API_KEY="sk-wrong")
    assert ends(told_by(attempt, task.rows(600))) == {(OPEN, None): 600}
    assert attempt.halt is not None
    assert attempt.halt.code is ExitCode.STOPPED
    assert "no row had an answer for 4 s: " in attempt.halt.text
    assert "sk-wrong" not in attempt.halt.text
    assert task.endpoint.stats()["calls"] < 20
    assert task.sql("SELECT state FROM headrace.jobs WHERE job = %s", task.job) == [("paused",)]

    other = task.attempt(1)
    assert ends(told_by(other, task.rows(600))) == {(OPEN, None): 600}
    assert other.halt is not None
    assert not other.halt.cause


def test_a_pause_ends_the_task_and_keeps_what_was_called(task: Task) -> None:
    task.record()
    attempt = task.attempt(MAX_IN_FLIGHT="4")
    told = told_by(attempt, task.rows(600), lambda told: task.order("paused") if told >= 20 else None)
    found = ends(told)
    assert found["succeeded", None] == task.ended() >= 20
    assert found[OPEN, None] == 600 - found["succeeded", None] > 0
    assert attempt.halt is not None
    assert attempt.halt.code is ExitCode.STOPPED
    assert task.repeats() == {}


def test_a_cancel_ends_the_rest_without_calls(task: Task) -> None:
    task.record()
    attempt = task.attempt(MAX_IN_FLIGHT="4")
    found = ends(told_by(attempt, task.rows(600), lambda told: task.order("cancelled") if told >= 20 else None))
    assert found["failed", "cancelled"] == 600 - found["succeeded", None] > 0
    assert attempt.halt is None
    assert task.endpoint.stats()["calls"] == found["succeeded", None]


def test_rows_that_fail_are_rows(task: Task) -> None:
    task.endpoint.set_script({"rules": [{"match": {"ids": ["r-1"]}, "status": 400}]})
    unread = task.row("r-9", "text", fingerprint="0" * 64)
    found = ends(told_by(task.attempt(), [*task.rows(3), unread]))
    assert found == {("succeeded", None): 2, ("failed", "rejected_request"): 1, ("failed", "invalid_field"): 1}


@pytest.mark.parametrize(("hours", "wins"), [(1, True), (-1, False)])
def test_of_two_runs_the_one_that_began_later_has_the_row_whichever_comes_first(
    task: Task, hours: int, wins: bool
) -> None:
    assert ends(told_by(task.attempt(), task.rows(3))) == {("succeeded", None): 3}
    other = Task(task.database, task.endpoint, "run-2", STARTED + timedelta(hours=hours), task.job)
    found = ends(told_by(other.attempt(), other.rows(3, "And of {}?")))
    assert found == {("succeeded" if wins else SUPERSEDED, None): 3}
    runs = task.sql("SELECT DISTINCT run FROM headrace.results WHERE job = %s", task.job)
    assert runs == [("run-2" if wins else "run-1",)]


@pytest.mark.parametrize(("hours", "wins"), [(1, False), (-1, True)])
def test_a_message_of_kafka_has_its_place_among_them_by_the_time_it_was_published(
    task: Task, hours: int, wins: bool
) -> None:
    task.sql(
        "INSERT INTO headrace.results (job, id, run, fingerprint, status, log, log_offset, published_at)"
        " VALUES (%s, 'r-0', 'run-k', 'other', 'succeeded', 'topic/0', 9000000000000000, %s)",
        task.job,
        STARTED + timedelta(hours=hours),
    )
    assert ends(told_by(task.attempt(), task.rows(1))) == {("succeeded" if wins else SUPERSEDED, None): 1}


def test_where_a_source_changes_under_a_run_the_later_attempt_has_the_last_word(task: Task) -> None:
    first, second = task.rows(40), task.rows(40, "And of {}?")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(told_by, task.attempt(number), rows) for number, rows in enumerate((first, second))]
        early, late = (ends(told.result()) for told in both)
    assert late == {("succeeded", None): 40}
    assert sum(early.values()) == 40
    assert set(early) <= {("succeeded", None), (SUPERSEDED, None)}
    kept = task.sql("SELECT DISTINCT log_offset / %s FROM headrace.results WHERE job = %s", ATTEMPT, task.job)
    assert kept == [(1,)]
    assert task.endpoint.stats()["calls"] <= 80


def test_a_database_that_is_away_ends_the_task_with_its_name(task: Task) -> None:
    away = Task("postgresql://headrace:hunter2@127.0.0.1:1/x", task.endpoint)
    attempt = away.attempt(DIRECT_PATIENCE_SECONDS="2")
    assert ends(told_by(attempt, away.rows(300))) == {(OPEN, None): 300}
    assert attempt.halt is not None
    assert attempt.halt.code is ExitCode.UNREACHABLE
    assert attempt.halt.text.startswith("database: ")
    assert "hunter2" not in attempt.halt.text
