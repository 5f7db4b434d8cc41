"""Reading finished results out of a real Postgres: whole, even, consistent, to the letter, and one run at a time."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from backfill import source
from backfill.errors import AlreadyRunningError, ReadError, RunFailedError, UnreachableError, WrongJobError
from backfill.results import BESIDE_TEXT, KNOWN, columns
from backfill.source import Query, Snapshot, database_session, rows_of
from tests.services import PostgresService
from tests.spark.backfilling import JOB, migrated

pytestmark = pytest.mark.integration

BIG = "21602730330000060100100000358582"
ODD_IDS = ["000123", "123", BIG, "1e5", "true", "é", "日本", "a\nb", 'q"', "NULL", "\\."]
ODD_TEXT = 'line\r\n"quoted", \t\\ end'


@pytest.fixture(scope="module")
def url(postgres: PostgresService) -> str:
    """A database whose `results` each test empties."""
    return migrated(postgres)


@pytest.fixture
def database(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE headrace.results, headrace.former_results")
        yield connection


def insert(database: psycopg.Connection, *ids: str, job: str = JOB, status: str = "succeeded") -> None:
    statement = "INSERT INTO headrace.results (job, id, status) VALUES (%s, %s, %s)"
    with database.cursor() as cursor:
        cursor.executemany(statement, [(job, id_, status) for id_ in ids])


def parts(snapshot: Snapshot, number: int, with_json: bool = True) -> list[list[dict[str, Any]]]:
    query = Query(snapshot, number, columns(with_json))
    return [[row for batch in rows_of(query, part) for row in batch.to_pylist()] for part in range(number)]


@pytest.mark.parametrize("number", [1, 2, 3, 8, 16])
def test_the_parts_add_up_to_all_rows_of_any_text_ids(database: psycopg.Connection, url: str, number: int) -> None:
    insert(database, *ODD_IDS, *(f"r-{n}" for n in range(1000)))
    insert(database, "failed", status="failed")
    insert(database, "claimed", status="claimed")
    insert(database, "r-1", job="another")

    with database_session(SecretStr(url), JOB, "t") as held:
        found = parts(held.snapshot, number)
        assert held.snapshot.count == len(ODD_IDS) + 1001

    ids = [row["id"] for part in found for row in part]
    assert len(ids) == len(set(ids)) == len(ODD_IDS) + 1001
    assert {"failed", *ODD_IDS} <= set(ids)
    assert "claimed" not in ids
    sizes = [len(part) for part in found]
    assert max(sizes) <= 1.4 * sum(sizes) / number


def test_what_a_request_was_answered_before_is_read_by_request(database: psycopg.Connection, url: str) -> None:
    database.execute(
        "INSERT INTO headrace.results (job, id, fingerprint, status, result) VALUES"
        " ('reviews', 'a', 'f1', 'succeeded', 'one'), ('another', 'a', 'f1', 'succeeded', 'not ours')"
    )
    database.execute("UPDATE headrace.results SET fingerprint = 'f2', status = 'failed'")
    with database_session(SecretStr(url), JOB, "t") as held:
        query = Query(held.snapshot, 3, columns(with_json=True, by_request=True), former=True)
        found = [row for part in range(3) for batch in rows_of(query, part) for row in batch.to_pylist()]
        assert held.snapshot.count == len([row for part in parts(held.snapshot, 3) for row in part]) == 1

    told = sorted((row["handle"], row["id"], row["fingerprint"], row["status"], row["result"]) for row in found)
    assert told == [(" f1 a", "a", "f1", "succeeded", "one"), ("a", "a", "f2", "failed", "one")]


def test_an_empty_table_has_empty_parts(database: psycopg.Connection, url: str) -> None:
    with database_session(SecretStr(url), JOB, "t") as held:
        assert held.snapshot.count == 0
        assert parts(held.snapshot, 4) == [[], [], [], []]


def test_all_parts_see_one_moment(database: psycopg.Connection, url: str) -> None:
    insert(database, *(f"r-{n}" for n in range(100)))
    with database_session(SecretStr(url), JOB, "t") as held:
        insert(database, *(f"late-{n}" for n in range(100)))
        database.execute("DELETE FROM headrace.results WHERE id = 'r-5'")
        ids = {row["id"] for part in parts(held.snapshot, 3) for row in part}

    assert ids == {f"r-{n}" for n in range(100)}


def test_values_arrive_as_they_are_whatever_zone_the_server_is_in(database: psycopg.Connection, url: str) -> None:
    name = database.info.dbname
    database.execute(f"ALTER DATABASE {name} SET timezone = 'America/Los_Angeles'".encode())
    database.execute(
        """INSERT INTO headrace.results (job, id, status, result, result_json, run, prompt_tokens, retry_count,
               cost_usd, completed_at)
           VALUES ('reviews', 'a', 'succeeded', %s, '{"k": "é"}', '', 3000000000, 2,
               0.000123456, '2026-03-08 02:30:00.000001+00'),
           ('reviews', 'b', 'failed', NULL, NULL, NULL, NULL, 0, 'NaN', 'infinity')""",
        [ODD_TEXT],
    )
    with database_session(SecretStr(url), JOB, "t") as held:
        first, second = sorted(parts(held.snapshot, 1)[0], key=lambda row: str(row["id"]))
        without_json = parts(held.snapshot, 1, with_json=False)[0]
    database.execute(f"ALTER DATABASE {name} RESET timezone".encode())

    assert (first["result"], first["result_json"], first["run"]) == (ODD_TEXT, '{"k": "é"}', "")
    assert (first["prompt_tokens"], first["retry_count"], first["cost_usd"]) == (
        3_000_000_000,
        2,
        Decimal("0.00012346"),
    )
    assert first["completed_at"] == datetime(2026, 3, 8, 2, 30, 0, 1, tzinfo=UTC)
    assert {name for name, value in second.items() if value is not None} == {"id", "status", "retry_count"}
    assert [row.keys() ^ first.keys() for row in without_json] == [{"result_json"}] * 2


def test_json_is_written_out_only_where_the_text_is_not_that_json(database: psycopg.Connection, url: str) -> None:
    rows = [
        ("own", '{"b": 1, "a": 2}', '{"b": 1, "a": 2}', False),
        ("list", "[1]", "[1]", False),
        ("fenced", '```json\n{"a": 2}\n```', '{"a": 2}', False),
        ("mended", '{"a": NaN}', '{"a": null}', True),
        ("spaced", ' {"a": 2}', '{"a": 2}', False),
        ("word", '"x"', '"x"', False),
        ("nothing parsed", '{"a": 2}', None, False),
        ("nothing", None, None, False),
    ]
    with database.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO headrace.results (job, id, status, result, result_json, sanitised)"
            " VALUES ('reviews', %s, 'succeeded', %s, %s, %s)",
            rows,
        )
    with database_session(SecretStr(url), JOB, "t") as held:
        query = Query(held.snapshot, 1, columns(with_json=True, from_text=True))
        found = {row["id"]: row[BESIDE_TEXT] for batch in rows_of(query, 0) for row in batch.to_pylist()}

    assert found == {
        "own": "",
        "list": "",
        "fenced": '{"a": 2}',
        "mended": '{"a": null}',
        "spaced": '{"a": 2}',
        "word": '"x"',
        "nothing parsed": None,
        "nothing": None,
    }


def test_a_batch_is_bounded_however_many_rows_there_are(
    database: psycopg.Connection, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BATCH_BYTES", 10_000)
    database.execute(
        "INSERT INTO headrace.results (job, id, status, result) "
        "SELECT 'reviews', 'r-' || n, 'succeeded', repeat('x', 1000) FROM generate_series(1, 500) n"
    )
    with database_session(SecretStr(url), JOB, "t") as held:
        batches = list(rows_of(Query(held.snapshot, 1, columns(with_json=True)), 0))

    assert sum(batch.num_rows for batch in batches) == 500
    assert max(batch.num_rows for batch in batches) <= 10


def test_one_target_is_written_by_one_run_at_a_time(database: psycopg.Connection, url: str) -> None:
    secret = SecretStr(url)
    with database_session(secret, JOB, "t"):
        with pytest.raises(AlreadyRunningError, match="already running"), database_session(secret, "another", "t"):
            pass
        with database_session(secret, JOB, "elsewhere"):
            pass
    with database_session(secret, JOB, "t"):
        pass


def test_a_lost_session_is_noticed_before_the_target_changes(database: psycopg.Connection, url: str) -> None:
    with database_session(SecretStr(url), JOB, "t") as held:
        held.check()
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'headrace-backfill' AND datname = current_database()"
        )
        with pytest.raises(RunFailedError, match="nothing was written"):
            held.check()
        with pytest.raises(ReadError, match="reading results"):
            parts(held.snapshot, 1)


def test_a_database_that_is_not_there_or_not_ours_is_told(postgres: PostgresService) -> None:
    empty = SecretStr(postgres.new_database())
    with pytest.raises(WrongJobError, match="headrace migrate"), database_session(empty, JOB, "t"):
        pass
    nobody = SecretStr("postgresql://headrace:canary-secret@127.0.0.1:1/headrace")
    with pytest.raises(UnreachableError) as caught, database_session(nobody, JOB, "t"):
        pass
    assert "canary-secret" not in str(caught.value)


def test_the_address_is_hidden_in_what_is_printed_and_there_in_what_is_pickled() -> None:
    query = Query(Snapshot(SecretStr("postgresql://u:canary-secret@h/d"), JOB, "s", 1), 1, KNOWN)

    assert "canary-secret" not in repr(query)
    assert pickle.loads(pickle.dumps(query)) == query


def test_a_snapshot_outlives_time_outs_of_the_server(database: psycopg.Connection, url: str) -> None:
    name = database.info.dbname
    insert(database, "a")
    for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
        database.execute(f"ALTER DATABASE {name} SET {setting} = '100ms'".encode())
    try:
        with database_session(SecretStr(url), JOB, "t") as held:
            threading.Event().wait(0.5)
            assert len(parts(held.snapshot, 1)[0]) == 1
            held.check()
    finally:
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            database.execute(f"ALTER DATABASE {name} RESET {setting}".encode())
