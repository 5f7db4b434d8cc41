"""The worker's role may do what the worker does, the reader's may read, and neither anything else."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from sqlalchemy.engine import make_url

from control.migrate import migrate
from schemas.database import REVISION
from schemas.settings import DatabaseSettings
from tests.fakes.samples import called, finished, work
from tests.services import PostgresService
from worker import fleet_sql
from worker.core.claims import Verdict
from worker.store import PostgresStore

pytestmark = pytest.mark.integration
FORBIDDEN_TO_BOTH = """
DELETE FROM headrace.results
DELETE FROM headrace.former_results
UPDATE headrace.former_results SET result = 'x'
INSERT INTO headrace.former_results (job, fingerprint, id, status) VALUES ('j', 'f', 'r', 'succeeded')
DELETE FROM headrace.attempts
DELETE FROM headrace.jobs
DELETE FROM headrace.replays
DELETE FROM headrace.spending
DELETE FROM headrace.quotas
DELETE FROM headrace.circuits
UPDATE headrace.jobs SET budget_usd = 9
UPDATE headrace.replays SET ancestor_log = 'other'
UPDATE headrace.replays SET replayed_at = now()
TRUNCATE headrace.results
TRUNCATE headrace.attempts
UPDATE headrace.jobs SET state = 'done'
INSERT INTO headrace.jobs (job, run, state) VALUES ('j', 'r', 'done')
UPDATE headrace.alembic_version SET version_num = '9999'
DELETE FROM headrace.alembic_version
UPDATE headrace.results SET job = 'other'
UPDATE headrace.results SET id = 'other'
UPDATE headrace.attempts SET id = 'other'
UPDATE headrace.attempts SET claimed_at = now()
ALTER TABLE headrace.results ADD COLUMN x int
ALTER TABLE headrace.results DISABLE TRIGGER ALL
DROP TABLE headrace.results
DROP SCHEMA headrace CASCADE
CREATE TABLE headrace.mine (x int)
CREATE INDEX mine ON headrace.results (run)
CREATE FUNCTION headrace.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE OR REPLACE FUNCTION headrace.stamp_version() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'
CREATE ROLE mine
COPY headrace.results TO PROGRAM 'true'
SELECT pg_read_file('PG_VERSION')
""".strip().splitlines()
FORBIDDEN_TO_READERS = """
INSERT INTO headrace.results (job, id, status) VALUES ('j', 'r', 'succeeded')
UPDATE headrace.results SET result = 'x'
INSERT INTO headrace.attempts (job, id, attempt, outcome, billed) VALUES ('j', 'r', 1, 'lost', 'maybe')
UPDATE headrace.attempts SET billed = 'no'
SELECT * FROM headrace.results FOR UPDATE
INSERT INTO headrace.replays (ancestor_log, ancestor_offset, run, ancestor, root, kind, job, id, topic) VALUES \
('l/0', 1, 'r', 't/0/1', 't/0/1', 'failed', 'j', 'r', 't')
UPDATE headrace.replays SET log_offset = 7, acknowledged_at = now()
INSERT INTO headrace.workers (worker) VALUES ('w')
DELETE FROM headrace.workers
INSERT INTO headrace.quotas (endpoint, unit) VALUES ('e', 'tokens')
UPDATE headrace.quotas SET next_at = now()
INSERT INTO headrace.circuits (endpoint) VALUES ('e')
UPDATE headrace.circuits SET opened_at = NULL
INSERT INTO headrace.spending (job, run, worker) VALUES ('j', 'r', 'w')
UPDATE headrace.spending SET granted_usd = 9
SELECT headrace.pause_for_budget('j', 'kept')
SELECT headrace.end_run('j', 'kept', now())
SELECT headrace.draw_budget('j', 'kept', 'w', 1, false, '{0,0}', '{0,0}', '{0,0}', '{0,0}', '{0,0}', '{0,0}')
""".strip().splitlines()
TABLES = "results former_results attempts jobs replays workers quotas circuits spending costs alembic_version".split()
READS = [f"SELECT * FROM headrace.{table}" for table in TABLES]


@pytest.fixture(scope="module")
def database(postgres: PostgresService) -> Iterator[str]:
    """The URL of a migrated database with one row in each table."""
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO headrace.results (job, id, status) VALUES ('j', 'kept', 'succeeded')")
        connection.execute(
            "INSERT INTO headrace.jobs (job, run, state, budget_usd) VALUES ('j', 'kept', 'running', 1)"
        )
        connection.execute(
            "INSERT INTO headrace.attempts (job, id, attempt, outcome, billed)"
            " VALUES ('j', 'kept', 1, 'lost', 'maybe')"
        )
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="module", params=["headrace_worker", "headrace_reader"])
def member(request: pytest.FixtureRequest, database: str) -> Iterator[tuple[str, str]]:
    """A user who is in one of the roles and nothing else: the role and the user's URL."""
    name, password = f"user_{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}' IN ROLE {request.param}")
        url = make_url(database).set(username=name, password=password, query={})
        query = dict(make_url(database).query)
        yield request.param, url.update_query_dict(query).render_as_string(hide_password=False)
        connection.execute(f"DROP ROLE {name}")


def state(url: str, statement: str) -> str | None:
    """The SQLSTATE that a statement ends with, or None; it is rolled back."""
    with psycopg.connect(url) as connection:
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            return error.sqlstate
        finally:
            connection.rollback()
    return None


@pytest.mark.parametrize("statement", FORBIDDEN_TO_BOTH)
def test_what_neither_may(member: tuple[str, str], statement: str) -> None:
    assert state(member[1], statement) == "42501"


@pytest.mark.parametrize("statement", FORBIDDEN_TO_READERS)
def test_what_a_reader_may_not(member: tuple[str, str], statement: str) -> None:
    role, url = member
    assert state(url, statement) == ("42501" if role == "headrace_reader" else None)


@pytest.mark.parametrize("statement", READS)
def test_both_may_read(member: tuple[str, str], statement: str) -> None:
    assert state(member[1], statement) is None


def test_nobody_without_a_role_may_read(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE ROLE nobody_at_all")
        connection.execute("SET ROLE nobody_at_all")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM headrace.results")
        connection.rollback()


async def test_a_worker_needs_nothing_more_than_its_role(member: tuple[str, str]) -> None:
    role, url = member
    if role == "headrace_reader":
        return
    store = PostgresStore(DatabaseSettings.read({"DATABASE_URL": url}), "w-1")
    await store.open()
    try:
        assert await store.revision() == REVISION
        await _live_a_life(store, url)
    finally:
        await store.close()


async def _live_a_life(store: PostgresStore, url: str) -> None:
    """Every statement the worker sends, each in each of its ways."""
    one, other = work("r-1"), work("r-2")
    for claimed, got in zip((one, other), await store.claim([one, other]), strict=True):
        claimed.claim = got
    assert await store.renew([one, other]) == [True, True]
    await store.release([other])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE headrace.results SET claimed_until = now() - interval '1 s' WHERE id = 'r-1'")
    (taken,) = await store.claim([work("r-1")])
    assert (taken.verdict, taken.lost) == (Verdict.LOST, True)
    assert await store.finish([finished(one)], [called(one)]) == [False]
    one.claim = taken
    assert await store.finish([finished(one)], [called(one, 2)]) == [True]
    assert await store.finish([finished(one)], [called(one, 2)]) == [True]
    (newer,) = await store.claim([work("r-1", "v2", offset=9)])
    assert newer.verdict is Verdict.NEWER
    await _spend(store, url)


async def _spend(store: PostgresStore, url: str) -> None:
    """Draw from a budget until it is used up."""
    with psycopg.connect(url, autocommit=True) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("UPDATE headrace.jobs SET state = 'paused'")
    names = "keeps spent reserved smallest largest wish".split()
    amounts = {name: [Decimal(2), Decimal(0)] for name in names}
    run = {"job": "j", "run": "kept"}
    values = {**run, **amounts, "worker": "w-1", "workers": 1, "stuck": True}
    assert await store.ask(fleet_sql.BUDGETS, {"job": ["j"], "run": ["kept"]}) == [("j", "kept", "kept", True, False)]
    assert await store.ask(fleet_sql.DRAW, values) == [("used_up", 0, 0)]
    await store.ask(fleet_sql.PAUSE_FOR_BUDGET, run)
    await store.ask(fleet_sql.RECLAIM, {**run, "silent": 60.0})
