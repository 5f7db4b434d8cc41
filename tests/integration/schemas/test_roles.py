"""One role a program: each program works with its own, and can do nothing that it does not need to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import yaml
from typer.testing import CliRunner

from backfill import cursor, source, standing
from backfill.counts import Counts as BackfillCounts
from control.cli import app
from control.exporter.reading import Reader
from control.migrate import migrate
from producer.counts import Counts
from producer.ledger import Ledger
from producer.watch import Watch
from schemas.database import REVISION
from schemas.job import Job
from schemas.settings import DatabaseSettings
from schemas.statuses import JobState
from tests.fleet import Fleet, prompts, wait_for
from tests.roles import FILE, NAMES, Roles, granted, made
from tests.services import KafkaService, PostgresService
from tests.simulated import simulated

pytestmark = pytest.mark.integration
PROGRAMS = [name for name in NAMES if name != "headrace_owner"]
FOR_THE_OWNER = """
DROP TABLE headrace.results
DROP SCHEMA headrace CASCADE
TRUNCATE headrace.results
ALTER TABLE headrace.results ADD COLUMN x int
ALTER TABLE headrace.results DISABLE TRIGGER ALL
CREATE TABLE headrace.mine (x int)
CREATE TABLE public.mine (x int)
CREATE SCHEMA mine
CREATE ROLE mine
CREATE FUNCTION headrace.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'
SET ROLE headrace_owner
DELETE FROM headrace.results
DELETE FROM headrace.attempts
DELETE FROM headrace.jobs
UPDATE headrace.results SET id = 'other'
UPDATE headrace.jobs SET run = 'other'
UPDATE headrace.former_results SET result = 'x'
UPDATE headrace.alembic_version SET version_num = '9999'
SELECT pg_read_file('PG_VERSION')
COPY headrace.results TO PROGRAM 'true'
""".strip().splitlines()
ANSWER = "INSERT INTO headrace.results (job, id, status) VALUES ('j', 'r', 'succeeded')"
CORRECT = "UPDATE headrace.results SET result = 'x'"
BILL = "UPDATE headrace.attempts SET cost_usd = 0"
ORDER = "UPDATE headrace.jobs SET state = 'cancelled'"
FUND = "UPDATE headrace.jobs SET budget_usd = 9"
SPEND = "UPDATE headrace.spending SET granted_usd = 9"
END = "SELECT headrace.end_run('j', 'r', now())"
JOINED = "UPDATE headrace.backfills SET cursor = '9'::xid8"
REPLAY = "UPDATE headrace.replays SET log_offset = 7"
READ = "SELECT * FROM headrace.results"
FORMER = "SELECT * FROM headrace.former_results"
LEDGER = "SELECT * FROM headrace.attempts"
RUNS = "SELECT * FROM headrace.jobs"
SESSION = "CREATE TEMP TABLE mine (x int)"
# Who may do what of these; nobody else may.
ALLOWED = {
    ANSWER: {"worker"},
    CORRECT: {"worker"},
    BILL: {"worker"},
    ORDER: {"producer", "operator"},
    FUND: {"operator"},
    SPEND: {"worker", "operator"},
    END: {"worker"},
    JOINED: {"backfill"},
    REPLAY: {"operator"},
    READ: {"worker", "producer", "backfill", "reader", "operator"},
    FORMER: {"producer", "backfill", "reader", "operator"},
    LEDGER: {"worker", "producer", "reader", "operator"},
    RUNS: {"worker", "producer", "backfill", "reader", "operator"},
    SESSION: {"operator"},
}


@pytest.fixture(scope="module")
def roles(postgres: PostgresService) -> Iterator[Roles]:
    url = postgres.new_database()
    yield granted(url)
    postgres.drop_database(url)


@pytest.fixture(scope="module")
def fleet(roles: Roles, kafka: KafkaService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A worker of the worker's role alone has answered rows, under a limit, a budget, and after a refusal."""
    folder = tmp_path_factory.mktemp("roles")
    with simulated({"rules": [{"match": {"times": 1}, "status": 401}, {"latency_ms": 1}]}) as endpoint:
        models = folder / "models.yaml"
        one = {"base_url": endpoint.base_url, "model": "simulated", "rpm": 60_000, "tpm": 10_000_000}
        price = {"input_per_million": 1, "output_per_million": 1}
        models.write_text(yaml.safe_dump({"models": {"simulated": {"endpoints": [one], "price": price}}}))
        settings = {"MODELS_FILE": str(models), "LLM_BASE_URL": ""}
        world = Fleet(kafka.bootstrap_servers, roles.urls["headrace_worker"], folder, "", settings=settings)
        world.make_topics()
        with psycopg.connect(roles.admin, autocommit=True) as connection:
            run = """INSERT INTO headrace.jobs (job, run, state, topic, budget_usd)
                VALUES (%s, 'run-1', 'running', %s, 5)"""
            connection.execute(run, (world.job, world.topic))
        world.publish({**each, "run": "run-1", "params": {"max_tokens": 512}} for each in prompts(40))
        (worker,) = world.start()
        world.wait_until_ended(40, 60)
        yield world
        worker.process.terminate()
        try:
            assert worker.end() == 0
        finally:
            world.close()


def state(url: str, statement: str) -> str | None:
    """The SQLSTATE that a statement ends with, or None; it is rolled back."""
    with psycopg.connect(url) as connection:
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            return error.sqlstate
        finally:
            connection.rollback()
    return None


@pytest.mark.parametrize("role", PROGRAMS)
def test_what_only_the_owner_may(roles: Roles, role: str) -> None:
    refused = {statement: state(roles.urls[role], statement) for statement in FOR_THE_OWNER}
    assert refused == dict.fromkeys(FOR_THE_OWNER, "42501")


@pytest.mark.parametrize("role", PROGRAMS)
def test_each_may_do_its_own_and_nothing_of_the_others(roles: Roles, role: str) -> None:
    found = {statement: state(roles.urls[role], statement) for statement in ALLOWED}
    own = role.removeprefix("headrace_")
    assert found == {statement: None if own in who else "42501" for statement, who in ALLOWED.items()}


def test_the_fleet_answers_as_the_worker(fleet: Fleet) -> None:
    """With leases, limits, circuits, orders and a budget; nothing was refused by the database."""
    assert fleet.statuses() == {("succeeded", None): 40}
    with psycopg.connect(fleet.database) as connection:
        for table in ("quotas", "circuits", "spending", "workers"):
            row = connection.execute(f"SELECT count(*) FROM headrace.{table}".encode()).fetchone()
            assert row is not None
            assert row[0] > 0, table
    assert not [event for event in fleet.workers[0].events if "store" in event["event"]]


def test_a_run_is_published_as_the_producer(roles: Roles, fleet: Fleet) -> None:
    url = roles.settings("producer").url
    ledger, watch = Ledger(url, fleet.job), Watch(url, fleet.job, "run-1")
    assert ledger.has_finished()
    job = Job.model_validate(
        {"job": fleet.job, "source": {"format": "csv", "path": "x"}, "id": "id", "prompt": {"template": "{t}"},
         "target": {"format": "parquet", "path": "y"}}
    )  # fmt: skip
    ledger.start("run-2", job, JobState.CANARY)
    assert ledger.proceed("run-2")
    ledger.count("run-2", Counts())
    assert ledger.state("run-2")[0] == JobState.RUNNING
    for one in (ledger, Ledger(url, fleet.job, by_request=False)):
        with one.finished() as look_up:
            assert look_up(["r-1"], ["other"]) == set()
    assert (ledger.given("run-1"), ledger.in_doubt("run-1", datetime.now(UTC))) == (40, 0)
    ledger.stop("run-2")
    ledger.end("run-2")
    assert (watch.revision(), watch.workers(), len(watch.earlier(9)), len(watch.bills(["r-1"]))) == (
        REVISION,
        1,
        9,
        1,
    )
    assert watch.ends(["r-1"], ["other"]) == (0, {})
    assert watch.refusing(["r-1"]) == []


def test_a_target_is_joined_as_the_backfill(roles: Roles, fleet: Fleet) -> None:
    url = roles.settings("backfill").url
    with source.database_session(url, fleet.job, "somewhere") as session:
        for former in (False, True):
            query = source.Query(session.snapshot, 1, ("id", "fingerprint", "result"), former)
            assert sum(batch.num_rows for batch in source.rows_of(query, 0)) == 40
        session.check()
        assert cursor.keep(session.snapshot, "somewhere", BackfillCounts())
        assert cursor.keep(session.snapshot, "somewhere", BackfillCounts())
        cursor.seen(url, fleet.job, "somewhere")
        assert not cursor.news(url, "nobody's", session.snapshot.cursor)
        assert standing.read(session.snapshot, "somewhere", None).run is not None


@pytest.mark.parametrize("role", ["reader", "operator"])
def test_whoever_looks_on_may_read_all(roles: Roles, fleet: Fleet, role: str, tmp_path: Path) -> None:
    assert Reader(roles.settings(role)).read().jobs
    file = tmp_path / "job.yaml"
    source, target = "source: {format: csv, path: x}", "target: {format: parquet, path: y}"
    file.write_text(f'job: {fleet.job}\nid: id\nprompt: {{template: "{{t}}"}}\n{source}\n{target}\n')
    for words in (
        ("status", fleet.job),
        ("report", fleet.job, "--out", str(tmp_path / "report.html")),
        ("estimate", "--job", str(file), "--rows", "9"),
    ):
        assert headrace(roles, fleet, role, *words)[0] == 0


def test_an_operator_gives_orders_replays_and_reconciles(roles: Roles, fleet: Fleet) -> None:
    fleet.publish_raw(b"r-x", b"not json")
    wait_for(lambda: len(fleet.dead_letters()) == 1, 30)
    for words in (
        ("pause", fleet.job),
        ("resume", fleet.job, "--budget-usd", "8", "--budget-tokens", "100000"),
        ("reconcile", fleet.job, "--topic", fleet.topic),
        ("dead-letters", "list"),
        ("dead-letters", "show", f"{fleet.dead_letter_topic}/0/0"),
        ("cancel", fleet.job),
    ):
        code, said = headrace(roles, fleet, "operator", *words)
        assert code == 0, (words, said)
    assert headrace(roles, fleet, "reader", "pause", fleet.job)[0] == 1
    with psycopg.connect(fleet.database) as connection:
        found = connection.execute("SELECT state, budget_usd FROM headrace.jobs WHERE run = 'run-1'").fetchone()
    assert found == ("cancelled", 8)


def test_a_migration_needs_no_more_than_the_owner_and_can_be_repeated(postgres: PostgresService) -> None:
    """Tables that the administrator made before go to the owner, who then migrates with and without the option."""
    url = postgres.new_database()
    try:
        assert migrate(DatabaseSettings.read({"DATABASE_URL": url})) == REVISION
        owner = made(url).settings("owner")
        for with_roles in (True, True, False):
            assert migrate(owner, with_roles=with_roles) == REVISION
        made(url)
        with psycopg.connect(url) as connection:
            query = """SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class
                WHERE relnamespace = 'headrace'::regnamespace"""
            assert connection.execute(query).fetchall() == [("headrace_owner",)]
    finally:
        postgres.drop_database(url)


def headrace(roles: Roles, fleet: Fleet, role: str, *words: str) -> tuple[int, str]:
    """Run the command with a role's database and the fleet's topics: its exit code, and what it said."""
    env = {**fleet.env, "DATABASE_URL": roles.urls[f"headrace_{role}"]}
    ended = CliRunner().invoke(app, [*words], env=env)
    return ended.exit_code, ended.output


def test_the_file_names_every_role_and_no_password() -> None:
    text = FILE.read_text()
    assert all(name in text for name in NAMES)
    assert "PASSWORD '" not in text
