"""The migrations make what `schemas.tables` describes, as often and from as many places as one likes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.pool import NullPool

import schemas.migrations
from control.migrate import migrate
from schemas.database import REVISION, SCHEMA
from schemas.settings import DatabaseSettings
from schemas.tables import metadata
from tests.fleet import wait_for
from tests.services import PostgresService

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[3]


def settings(url: str) -> DatabaseSettings:
    return DatabaseSettings.read({"DATABASE_URL": url})


@pytest.fixture
def empty(postgres: PostgresService) -> Iterator[str]:
    url = postgres.new_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
def connection(empty: str) -> Iterator[Connection]:
    """A connection to a database that was migrated."""
    migrate(settings(empty))
    engine = create_engine(settings(empty).url.get_secret_value(), poolclass=NullPool)
    with engine.connect() as connected:
        yield connected


def alembic(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(schemas.migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


def is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    if kind == "schema":
        # For a user of the same name, our schema is the one that needs no name.
        return name in (None, SCHEMA)
    return not (kind == "table" and name and (name == "alembic_version" or name.startswith("attempts_")))


def described(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(text(query))]


COLUMNS = f"""
SELECT table_name, column_name, data_type, is_nullable, regexp_replace(column_default, '::\\w+( \\w+)*$', '')
FROM information_schema.columns
WHERE table_schema = '{SCHEMA}' AND table_name IN ('results', 'former_results', 'attempts', 'jobs', 'replays')
ORDER BY table_name, ordinal_position
"""
CONSTRAINTS = f"""
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = '{SCHEMA}'::regnamespace AND contype IN ('c', 'p')
    AND conrelid::regclass::text IN ('{SCHEMA}.results', '{SCHEMA}.former_results', '{SCHEMA}.attempts',
        '{SCHEMA}.jobs', '{SCHEMA}.replays')
ORDER BY 1, 2
"""


WAITS_FOR_WRITERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'
"""


@pytest.mark.filterwarnings("ignore:Did not recognize type 'xid8'")
def test_alembic_finds_no_difference(connection: Connection) -> None:
    options = {"include_schemas": True, "include_name": is_ours, "compare_server_default": True, "compare_type": True}
    context = MigrationContext.configure(connection, opts={**options, "version_table_schema": SCHEMA})
    differences = compare_metadata(context, metadata)
    assert [found for found in differences if found[0] not in ("remove_index",)] == []


def test_columns_defaults_and_checks_are_those_of_the_description(
    connection: Connection, postgres: PostgresService
) -> None:
    """Made a second time, by the description alone, the tables are the same to the letter."""
    url = postgres.new_database()
    engine = create_engine(settings(url).url.get_secret_value(), poolclass=NullPool)
    with engine.begin() as other:
        other.execute(text(f"CREATE SCHEMA {SCHEMA}"))
        metadata.create_all(other)
        assert described(other, COLUMNS) == described(connection, COLUMNS)
        assert described(other, CONSTRAINTS) == described(connection, CONSTRAINTS)
    postgres.drop_database(url)


def test_the_ledger_has_a_partition_for_each_month_of_a_year_ahead(connection: Connection) -> None:
    tables = inspect(connection).get_table_names(schema=SCHEMA)
    months = sorted(name for name in tables if name.startswith("attempts_2"))
    assert len(months) == 13
    assert months[0] == connection.scalar(text("SELECT 'attempts_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')"))
    assert "attempts_other" in tables


def test_a_line_of_any_time_finds_its_partition(connection: Connection) -> None:
    for at in ("1999-12-31 23:59:59+00", "now", "2999-01-01 00:00+00"):
        connection.execute(
            text(
                "INSERT INTO headrace.attempts (job, id, attempt, claimed_at, outcome, billed)"
                " VALUES ('j', 'r', 1, :at, 'lost', 'maybe')"
            ),
            {"at": at},
        )
    assert connection.scalar(text("SELECT count(*) FROM headrace.attempts")) == 3


def test_migrating_again_changes_nothing(connection: Connection, empty: str) -> None:
    before = described(connection, COLUMNS)
    connection.execute(text("INSERT INTO headrace.results (job, id, status) VALUES ('j', 'r', 'succeeded')"))
    connection.commit()
    for _ in range(3):
        assert migrate(settings(empty)) == REVISION
    assert described(connection, COLUMNS) == before
    assert connection.scalar(text("SELECT count(*) FROM headrace.results")) == 1


def test_the_revision_that_workers_need_is_the_newest(connection: Connection) -> None:
    assert ScriptDirectory.from_config(alembic(connection)).get_heads() == [REVISION]
    assert connection.scalar(text("SELECT version_num FROM headrace.alembic_version")) == REVISION


def test_down_and_up_again(connection: Connection) -> None:
    before = described(connection, COLUMNS), described(connection, CONSTRAINTS)
    command.downgrade(alembic(connection), "base")
    connection.commit()
    assert described(connection, COLUMNS) == []
    assert inspect(connection).get_table_names(schema=SCHEMA) == ["alembic_version"]
    connection.commit()
    command.upgrade(alembic(connection), "head")
    connection.commit()
    assert (described(connection, COLUMNS), described(connection, CONSTRAINTS)) == before


def migrate_in_a_process(url: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "control", "migrate"],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_four_processes_at_once_on_one_database(empty: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(migrate_in_a_process, [empty] * 4))
    assert ends == [(0, f"schema headrace is at revision {REVISION}\n")] * 4


def test_four_processes_at_once_on_databases_of_one_server(postgres: PostgresService) -> None:
    """Roles belong to the whole server, so these migrations meet there."""
    urls = [postgres.new_database() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(migrate_in_a_process, urls)) == [(0, f"schema headrace is at revision {REVISION}\n")] * 4
    for url in urls:
        postgres.drop_database(url)


def test_a_plain_update_of_a_finished_row_moves_it_past_the_cursor(connection: Connection) -> None:
    connection.execute(
        text(
            "INSERT INTO headrace.results (job, id, status)"
            " VALUES ('j', 'done', 'succeeded'), ('j', 'open', 'claimed')"
        )
    )
    connection.commit()
    before = versions(connection)
    connection.commit()
    connection.execute(text("UPDATE headrace.results SET result = 'corrected'"))
    connection.commit()
    after = versions(connection)
    assert after["done"] > before["done"]
    assert after["open"] == before["open"]


def test_an_answer_that_its_row_leaves_behind_is_kept(connection: Connection) -> None:
    connection.execute(
        text(
            "INSERT INTO headrace.results (job, id, fingerprint, status, result) VALUES"
            " ('j', 'a', 'f1', 'succeeded', 'first'), ('j', 'b', 'f1', 'failed', NULL),"
            " ('j', 'c', NULL, 'succeeded', 'x')"
        )
    )
    for fingerprint, result in (("f1", "corrected"), ("f2", "second"), ("f1", "again"), ("f3", "third")):
        connection.execute(
            text("UPDATE headrace.results SET fingerprint = :fingerprint, result = :result"),
            {"fingerprint": fingerprint, "result": result},
        )
    kept = described(connection, "SELECT id, fingerprint, result FROM headrace.former_results ORDER BY 1, 2")
    # Of the requests that a row has asked twice the later answer.
    assert kept == [("a", "f1", "again"), ("a", "f2", "second"), ("c", "f1", "again"), ("c", "f2", "second")]


def test_an_index_that_was_broken_off_is_built_anew_beside_a_writer(empty: str) -> None:
    engine = create_engine(settings(empty).url.get_secret_value(), poolclass=NullPool)
    with engine.connect() as writer:
        migrate(settings(empty))
        command.downgrade(alembic(writer), "0004")
        writer.execute(text("CREATE INDEX results_requests ON headrace.results (job)"))
        writer.commit()
        writer.execute(text("INSERT INTO headrace.results (job, id, status) VALUES ('j', 'r', 'succeeded')"))
        with ThreadPoolExecutor(1) as pool:
            migrating = pool.submit(migrate, settings(empty))
            wait_for(lambda: migrating.done() or waits_for_writers(engine), 60)
            assert not migrating.done()
            writer.execute(text("INSERT INTO headrace.results (job, id, status) VALUES ('j', 's', 'succeeded')"))
            writer.commit()
            assert migrating.result(60) == REVISION
        definition = writer.scalar(text("SELECT pg_get_indexdef('headrace.results_requests'::regclass)"))
    assert "(job, fingerprint) WHERE" in str(definition)


def waits_for_writers(engine: Engine) -> bool:
    with engine.connect() as other:
        return bool(other.scalar(text(WAITS_FOR_WRITERS)))


def versions(connection: Connection) -> dict[str, int]:
    rows = connection.execute(text("SELECT id, version_xid::text FROM headrace.results"))
    return {id_: int(version) for id_, version in rows}


@pytest.mark.parametrize(
    "values",
    [
        "'j', 'r', 'done', NULL",
        "'j', 'r', 'failed', 'because'",
        "'j', NULL, 'failed', NULL",
        "NULL, 'r', 'failed', NULL",
        "'j', 'r', NULL, NULL",
    ],
)
def test_words_outside_the_closed_lists_are_refused(connection: Connection, values: str) -> None:
    insert = text(f"INSERT INTO headrace.results (job, id, status, reason) VALUES ({values})")
    with pytest.raises(Exception, match=r"check constraint|not-null"):
        connection.execute(insert)
