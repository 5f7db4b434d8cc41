"""What a canary reads from a real Postgres: ends, bills, refusals, workers; and how its run goes on or ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from producer.counts import Counts
from producer.errors import UnreachableError, WrongJobError
from producer.ledger import Ledger
from producer.preflight import PATIENCE_SECONDS, check_revision, look_for_workers, wait_for_workers
from producer.watch import Bill, Watch
from schemas.bills import Earlier
from schemas.database import REVISION
from schemas.job import Job
from schemas.statuses import JobState, PausedFor
from tests.services import PostgresService

pytestmark = pytest.mark.integration

JOB = Job.model_validate(
    {
        "job": "reviews",
        "source": {"format": "parquet", "path": "rows"},
        "id": "id",
        "prompt": {"template": "{text}"},
        "target": {"format": "parquet", "path": "labelled"},
        "budget": {"usd": 5},
    }
)


class Database:
    """A database of its own, with one run in its canary."""

    def __init__(self, url: str) -> None:
        self.url = SecretStr(url)
        self.ledger = Ledger(self.url, "reviews")
        self.watch = Watch(self.url, "reviews", "run-2")

    def add(self, table: str, **columns: Any) -> None:
        names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
        self.sql(f"INSERT INTO headrace.{table} ({names}) VALUES ({marks})", *columns.values())

    def sql(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self.url.get_secret_value(), autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def result(self, id_: str, status: str, run: str = "run-2", **columns: Any) -> None:
        self.add(
            "results", **{"job": "reviews", "id": id_, "run": run, "fingerprint": "f", "status": status, **columns}
        )

    def call(self, id_: str, attempt: int = 1, **columns: Any) -> None:
        usual = {"run": "run-2", "outcome": "answered", "billed": "yes", "claimed_at": datetime.now(UTC)}
        self.add("attempts", **{"job": "reviews", "id": id_, "attempt": attempt, **usual, **columns})


@pytest.fixture
def database(postgres: PostgresService) -> Iterator[Database]:
    with postgres.migrated_database() as url:
        made = Database(url)
        made.ledger.start("run-2", JOB, JobState.CANARY)
        yield made


def test_ends_are_those_of_this_run_and_answers_of_any(database: Database) -> None:
    database.result("answered", "succeeded")
    database.result("answered before", "succeeded", run="run-1")
    database.result("failed", "failed", reason="invalid_output")
    database.result("failed before", "failed", run="run-1", reason="refused")
    database.result("open", "claimed")
    database.result("asks something else", "succeeded", fingerprint="other")
    ids = ["answered", "answered before", "failed", "failed before", "open", "asks something else", "not there"]

    assert database.watch.ends(ids, ["f"] * len(ids)) == (2, {"invalid_output": 1})
    assert database.watch.ends([], []) == (0, {})


def test_a_row_costs_what_all_its_calls_may_have_cost(database: Database) -> None:
    told = {"prompt_tokens": 10, "completion_tokens": 5}
    database.call("plain", cost_usd=Decimal("0.5"), **told)
    database.call("retried", 1, outcome="trouble", billed="no")
    database.call("retried", 2, cost_usd=Decimal("0.5"), **told)
    database.call("timed out", 1, outcome="timeout", billed="maybe", cost_bound_usd=Decimal(2), tokens_bound=40)
    database.call("timed out", 2, cost_usd=Decimal("0.5"), **told)
    database.call("no price", **told)
    database.call("says nothing", billed="maybe", outcome="lost")
    database.call("of another run", run="run-1", cost_usd=Decimal(9), **told)
    ids = "plain,retried,timed out,no price,says nothing,of another run,never called".split(",")

    assert database.watch.bills(ids) == {
        "plain": Bill(Decimal("0.5"), 15),
        "retried": Bill(Decimal("0.5"), 15),
        "timed out": Bill(Decimal("2.5"), 55),
        "no price": Bill(None, 15),
        "says nothing": Bill(None, None),
    }


def test_earlier_results_are_a_sample_with_the_bills_of_their_own_runs(database: Database) -> None:
    for id_, fingerprint in (("a", "3"), ("b", "1"), ("c", "2"), ("d", "4")):
        database.result(id_, "succeeded", run="run-1", fingerprint=fingerprint)
    database.result("open", "claimed", fingerprint="0")
    told = {"prompt_tokens": 10, "completion_tokens": 5, "model": "small"}
    database.call("b", 1, run="run-0", cost_usd=Decimal(9), **told)
    database.call("b", 2, run="run-1", cost_usd=Decimal(2), **told)
    database.call("a", 1, run="run-1", billed="no", outcome="rate_limited", model="large")
    database.call("a", 2, run="run-1", billed="maybe", outcome="timeout", tokens_bound=40, model="large")
    database.call("a", 3, run="run-1", **told | {"model": "large"})
    database.call("d", 1, run="run-1", billed="maybe", outcome="lost", model="large")
    earlier = Watch(database.url, "reviews")

    assert earlier.earlier(2) == [Earlier("run-1", "small", Decimal(2), 15, 10, 5)]
    assert earlier.earlier(9) == [
        Earlier("run-1", "large", None, 55, 10, 5),
        Earlier("run-1", "small", Decimal(2), 15, 10, 5),
        Earlier("run-1", "large", None, None, 0, 0),
    ]


def test_an_open_circuit_counts_once_this_runs_own_calls_have_met_it(database: Database) -> None:
    for endpoint in ("mine:1 small KEY", "theirs:1 small KEY"):
        database.add(
            "circuits", endpoint=endpoint, opened_at=datetime.now(UTC), reason="run_fault", detail="status 401"
        )
    assert database.watch.refusing(["a", "b"]) == []
    database.call("a", run="run-1", outcome="run_fault", billed="no", endpoint="mine:1")
    database.call("of another", outcome="run_fault", billed="no", endpoint="mine:1")
    assert database.watch.refusing(["a", "b"]) == []

    database.call("a", 2, outcome="run_fault", billed="no", endpoint="mine:1")
    assert database.watch.refusing(["a", "b"]) == ["mine:1 refuses every call (status 401; 1 of this run)"]
    database.sql("UPDATE headrace.circuits SET opened_at = NULL")
    assert database.watch.refusing(["a", "b"]) == []


def test_workers_that_live_are_counted(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    assert look_for_workers(database.watch) == 0
    assert "no worker is running" in capsys.readouterr().err
    database.add("workers", worker="gone", seen_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert database.watch.workers() == 0
    database.add("workers", worker="lives")
    assert look_for_workers(database.watch) == 1
    assert capsys.readouterr().err == ""


def test_a_worker_is_waited_for_but_not_for_long(database: Database) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(UnreachableError, match=r"no worker is running.*--no-canary"):
        wait_for_workers(database.watch, 0.0, lambda: now[0], sleep)
    assert now[0] == PATIENCE_SECONDS

    def start(seconds: float) -> None:
        database.add("workers", worker=f"after {seconds}")

    wait_for_workers(database.watch, 0.0, lambda: 0.0, start)
    assert database.watch.workers() == 1


def test_the_tables_must_not_be_older_than_this_release(database: Database) -> None:
    assert database.watch.revision() == REVISION
    check_revision(REVISION)
    check_revision(f"{int(REVISION) + 1:04}")
    for older in (None, "0001"):
        with pytest.raises(WrongJobError, match="run `headrace migrate`"):
            check_revision(older)


@pytest.mark.parametrize(
    ("meanwhile", "goes_on", "after"),
    [
        ("canary", True, (JobState.RUNNING, None)),
        ("paused", True, (JobState.PAUSED, PausedFor.OPERATOR)),
        ("cancelled", False, (JobState.CANCELLED, None)),
    ],
)
def test_whoever_orders_a_run_meanwhile_has_the_last_word(
    database: Database, meanwhile: str, goes_on: bool, after: tuple[JobState, PausedFor | None]
) -> None:
    paused_for = "operator" if meanwhile == "paused" else None
    database.sql("UPDATE headrace.jobs SET state = %s, paused_for = %s", meanwhile, paused_for)
    assert database.ledger.proceed("run-2") is goes_on
    assert database.ledger.state("run-2") == after


@pytest.mark.parametrize("state", ["canary", "paused"])
def test_a_canary_that_stops_ends_its_run_for_the_workers(database: Database, state: str) -> None:
    database.sql("UPDATE headrace.jobs SET state = %s", state)
    database.ledger.stop("run-2")
    assert database.ledger.state("run-2") == (JobState.CANCELLED, None)
    with psycopg.connect(database.url.get_secret_value()) as connection:
        ended = connection.execute("SELECT finished_at IS NOT NULL FROM headrace.jobs WHERE run = 'run-2'").fetchall()
    assert ended == [(True,)]


def test_a_run_whose_counts_are_told_after_it_was_found_done_goes_on(database: Database) -> None:
    def told(state: str, **counts: Any) -> tuple[JobState, PausedFor | None]:
        database.sql("UPDATE headrace.jobs SET state = %s WHERE run = 'run-2'", state)
        database.ledger.count("run-2", Counts(**counts))
        return database.ledger.state("run-2")

    assert told("running", read=3, published=3) == (JobState.RUNNING, None)
    assert told("running", published=2) == (JobState.RUNNING, None)
    assert told("done", read=3, published=3) == (JobState.RUNNING, None)
    assert told("cancelled", read=3, published=3) == (JobState.CANCELLED, None)
    assert told("running") == (JobState.RUNNING, None)
    assert told("running", read=3, skipped=3) == (JobState.DONE, None)
    # One inside Spark is over when it says so.
    database.sql("UPDATE headrace.jobs SET topic = NULL")
    assert told("done", read=3, published=3) == (JobState.DONE, None)


def test_a_canary_whose_producer_was_killed_is_cancelled_by_the_next_run(database: Database) -> None:
    def state() -> JobState:
        return database.ledger.state("run-2")[0]

    database.ledger.start("run-3", JOB, JobState.CANARY)
    # It may be about to say that it is there.
    assert state() is JobState.CANARY
    database.sql("UPDATE headrace.jobs SET created_at = now() - interval '11 seconds'")
    with database.ledger.attended("run-2"):
        database.ledger.start("run-4", JOB)
        assert state() is JobState.CANARY
        assert database.ledger.state("run-3")[0] is JobState.CANCELLED
        # A connection that is lost ends nothing.
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )
    database.ledger.start("run-5", JOB)
    assert state() is JobState.CANCELLED
