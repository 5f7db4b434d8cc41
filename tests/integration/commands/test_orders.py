"""`headrace pause|resume|cancel` on a real database: what is changed and said, how it ends, what workers read."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from control.cli import app
from control.topics import make_topics
from schemas.settings import DatabaseSettings, KafkaSettings, TopicSettings
from tests.fleet import ROOT
from tests.services import KafkaService, PostgresService
from worker.core.orders import Orders, Word
from worker.orders import OrderDesk
from worker.store import PostgresStore

pytestmark = pytest.mark.integration
NOW = datetime.now(UTC)


class Place:
    """A database with jobs in it, and the command."""

    def __init__(self, url: str, kafka: str) -> None:
        self.url = url
        self.kafka = kafka
        self.env = {"DATABASE_URL": url, "KAFKA_BOOTSTRAP_SERVERS": kafka}
        self.orders = Orders()

    def __call__(self, *words: str, **settings: str) -> Result:
        """Run a command in this process."""
        return CliRunner().invoke(app, list(words), env={**self.env, **settings}, catch_exceptions=False)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def run(self, run: str, state: str = "running", job: str = "reviews", **columns: Any) -> None:
        values = {"job": job, "run": run, "state": state, "topic": f"headrace.prompts.{job}", **columns}
        names = ", ".join(values)
        self.sql(f"INSERT INTO headrace.jobs ({names}) VALUES ({', '.join(['%s'] * len(values))})", *values.values())

    def states(self, job: str = "reviews") -> dict[str, tuple[str, str | None]]:
        found = self.sql("SELECT run, state, paused_for FROM headrace.jobs WHERE job = %s", job)
        return {run: (state, paused_for) for run, state, paused_for in found}

    async def read(self) -> Orders:
        """What a worker reads."""
        store = PostgresStore(DatabaseSettings.read({"DATABASE_URL": self.url}), "w")
        await store.open()
        try:
            await OrderDesk(store.ask, self._obey, lambda: 0.5, {"headrace.prompts"}).open(asyncio.Event())
        finally:
            await store.close()
        return self.orders

    def _obey(self, orders: Orders) -> None:
        self.orders = orders


@pytest.fixture
def place(postgres: PostgresService, kafka: KafkaService) -> Iterator[Place]:
    with postgres.migrated_database() as url:
        yield Place(url, kafka.bootstrap_servers)


async def test_a_job_is_paused_and_resumed_with_all_its_open_runs_and_workers_read_it(place: Place) -> None:
    place.run("r0", "done")
    place.run("r1", priority=2)
    place.run("r2", "canary")
    place.run("t1", job="tickets", priority=-1)
    ended = place("pause", "reviews")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "reviews run r0: is done, nothing to pause",
        "reviews run r1: running -> paused",
        "reviews run r2: canary -> paused",
        "reviews (messages that name no recorded run): paused",
    ]
    read = await place.read()
    assert read.parked == {"headrace.prompts.reviews"}
    assert read.weights["headrace.prompts.tickets"] == 0.5
    assert [read.word("reviews", run, NOW) for run in ("r0", "r1", "r2", None, "replay-1")] == [
        Word.GO, *[Word.WAIT] * 4,
    ]  # fmt: skip
    assert read.word("tickets", None, NOW) is Word.GO
    again = place("pause", "reviews")
    assert again.exit_code == 0
    assert all("is paused, nothing to pause" in text or "is done" in text for text in again.stdout.splitlines())
    assert place("resume", "reviews").exit_code == 0
    assert place.states() == {
        "r0": ("done", None), "r1": ("running", None), "r2": ("running", None), "": ("running", None),
    }  # fmt: skip
    read = await place.read()
    assert read.parked == frozenset()
    assert read.weights["headrace.prompts.reviews"] == 1.0, "the newest run's"
    assert read.word("reviews", "r1", NOW) is Word.GO


async def test_a_run_that_starts_after_a_pause_goes_on(place: Place) -> None:
    place.run("r1")
    place("pause", "reviews")
    place.run("r2", priority=1)
    read = await place.read()
    assert read.parked == frozenset()
    assert read.word("reviews", "r1", NOW) is Word.WAIT
    assert read.word("reviews", "r2", NOW) is Word.GO
    assert read.weights["headrace.prompts.reviews"] == 2.0


async def test_one_run_is_paused_and_a_topic_whose_only_other_run_has_ended_is_parked(place: Place) -> None:
    place.run("r1")
    place.run("r2")
    assert place("pause", "reviews", "--run", "r1").stdout == "reviews run r1: running -> paused\n"
    assert place.states() == {"r1": ("paused", "operator"), "r2": ("running", None)}
    assert (await place.read()).parked == frozenset()
    place("cancel", "reviews", "--run", "r2")
    assert (await place.read()).parked == {"headrace.prompts.reviews"}


async def test_what_was_said_of_the_whole_job_weighs_nothing_and_lets_its_topic_be_parked(
    place: Place,
) -> None:
    place.run("r1", priority=2)
    place("pause", "reviews")
    place("resume", "reviews")
    assert place.states() == {"r1": ("running", None), "": ("running", None)}
    assert (await place.read()).weights == {"headrace.prompts.reviews": 4.0}
    place("pause", "reviews", "--run", "r1")
    assert (await place.read()).parked == {"headrace.prompts.reviews"}


async def test_a_cancel_ends_what_is_open_and_what_was_published_until_then(place: Place) -> None:
    place.run("r1")
    place.run("r2", "paused", paused_for="budget")
    before = datetime.now(UTC)
    ended = place("cancel", "reviews")
    assert ended.exit_code == 0
    assert "reviews run r2: paused (its budget is used up) -> cancelled" in ended.stdout.splitlines()
    place.run("r3")
    read = await place.read()
    assert [read.word("reviews", run, before) for run in ("r1", "r2", None)] == [Word.END] * 3
    assert read.word("reviews", "r3", before) is Word.GO
    assert read.word("reviews", None, datetime.now(UTC)) is Word.GO
    assert read.parked == frozenset()
    between = datetime.now(UTC)
    assert "cancelled again" in place("cancel", "reviews").stdout
    assert (await place.read()).word("reviews", None, between) is Word.END
    assert place("resume", "reviews").stdout.count("nothing to resume") == 4


async def test_a_job_published_by_hand_is_known_by_its_results_or_its_topic(place: Place) -> None:
    place.sql("INSERT INTO headrace.results (job, id, run, status) VALUES ('by-hand', 'r', 'x', 'claimed')")
    assert place("pause", "by-hand", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1").exit_code == 0
    read = await place.read()
    assert read.parked == {"headrace.prompts.by-hand"}
    assert place("cancel", "by-hand", "--run", "x").stdout == "by-hand run x: cancelled\n"
    job = f"t-{uuid.uuid4().hex[:8]}"
    make_topics(KafkaSettings(bootstrap_servers=place.kafka), TopicSettings(), [job])
    assert place("pause", job).exit_code == 0
    assert place.states(job) == {"": ("paused", "operator")}


def test_a_job_or_run_of_which_nobody_has_heard_is_refused_with_names_like_it(place: Place) -> None:
    place.run("r1")
    ended = place("pause", "reviws")
    assert ended.exit_code == 2
    assert "no job reviws" in ended.stderr
    assert "did you mean reviews?" in ended.stderr
    ended = place("cancel", "reviews", "--run", "r9", "--yes")
    assert (ended.exit_code, ended.stderr) == (2, "job reviews has no run r9; its runs: r1\n")
    assert place("pause", "no such job\x1b").exit_code == 2
    assert place.states() == {"r1": ("running", None)}


def test_a_budget_is_raised_with_the_resumption(place: Place) -> None:
    place.run("r1", "paused", paused_for="budget", budget_usd=50)
    place.sql("INSERT INTO headrace.spending (job, run, worker, spent_usd) VALUES ('reviews', 'r1', 'w', 50.5)")
    warned = place("resume", "reviews", "--run", "r1")
    assert warned.exit_code == 0
    assert "pauses again" in warned.stderr
    place.sql("UPDATE headrace.jobs SET state = 'paused', paused_for = 'budget'")
    refused = place("resume", "reviews", "--budget-usd", "50.2")
    assert refused.exit_code == 2
    assert place.states()["r1"] == ("paused", "budget")
    ended = place("resume", "reviews", "--budget-usd", "80", "--budget-tokens", "1000")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert place.sql("SELECT state, budget_usd, budget_tokens FROM headrace.jobs WHERE run = 'r1'") == [
        ("running", 80, 1000)
    ]


def test_what_a_run_has_spent_before_its_first_budget_counts_too(place: Place) -> None:
    place.run("r1", "paused", budget_tokens=500)
    place.run("r2", "done")
    line = "INSERT INTO headrace.attempts (job, id, attempt, run, outcome, billed, prompt_tokens, completion_tokens,"
    line += " cost_usd, cost_bound_usd, tokens_bound) VALUES ('reviews', %s, 1, %s, 'x', %s, %s, %s, %s, %s, %s)"
    place.sql(line, "a", "r1", "yes", 100, 20, "0.4", None, None)
    place.sql(line, "b", "r1", "maybe", None, None, None, "0.7", 50)
    place.sql(line, "c", "r2", "yes", 100, 20, "9", None, None)
    for budget in ("80", "90"):
        assert place("resume", "reviews", "--run", "r1", "--budget-usd", budget).exit_code == 0
        place.sql("UPDATE headrace.jobs SET state = 'paused' WHERE run = 'r1'")
        assert place.sql(
            "SELECT run, worker, granted_usd, spent_usd, granted_tokens, spent_tokens FROM headrace.spending"
        ) == [("r1", "", Decimal("1.1"), Decimal("1.1"), 0, 0)]


def test_services_that_do_not_answer_and_tables_that_are_missing(place: Place, postgres: PostgresService) -> None:
    assert place("pause", "reviews", DATABASE_URL="postgresql://x@127.0.0.1:1/x").exit_code == 4
    assert place("pause", "reviews", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1").exit_code == 4
    bare = postgres.new_database()
    ended = place("cancel", "reviews", DATABASE_URL=bare)
    assert ended.exit_code == 2
    assert "headrace migrate" in ended.stderr
    postgres.drop_database(bare)


@pytest.mark.parametrize(("answer", "code", "state"), [("n", 3, "running"), ("y", 0, "cancelled")])
def test_a_cancel_asks_on_a_terminal(place: Place, answer: str, code: int, state: str) -> None:
    place.run("r1")
    ours, theirs = pty.openpty()
    env = {**os.environ, **place.env}
    command = [sys.executable, "-m", "control", "cancel", "reviews"]
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as asked:
        os.write(ours, f"{answer}\n".encode())
        assert asked.wait(60) == code
    os.close(ours)
    os.close(theirs)
    assert place.states()["r1"][0] == state


def test_the_help_says_what_each_does(place: Place) -> None:
    for word in ("pause", "resume", "cancel"):
        ended = place(word, "--help", COLUMNS="200")
        assert ended.exit_code == 0
        assert "Example: headrace " + word in ended.stdout
