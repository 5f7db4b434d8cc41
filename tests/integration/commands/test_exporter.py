"""`headrace exporter` on a real Postgres: its figures are those of plain SQL, and it outlives its database."""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from control.exporter.figures import Figures
from control.exporter.reading import Reader
from control.exporter.series import series
from control.exporter.serving import Server
from control.exporter.sharing import Shared
from control.migrate import migrate
from schemas.settings import DatabaseSettings
from tests.exporting import exporter, get, scrape
from tests.fleet import wait_for
from tests.services import PostgresService

pytestmark = pytest.mark.integration
ROWS = """
INSERT INTO headrace.jobs (job, run, state, topic, read, published, budget_usd, created_at) VALUES
    ('reviews', 'r0', 'done', 't', 50, 50, 9, now() - interval '2 hours'),
    ('reviews', 'r1', 'paused', 't', 40, 40, 5, now() - interval '1 hour');
INSERT INTO headrace.results (job, id, run, status, reason, published_at, completed_at, claimed_until)
SELECT 'reviews', 'a-' || n, CASE WHEN n < 50 THEN 'r0' ELSE 'r1' END,
    CASE WHEN n >= 70 THEN 'claimed' WHEN n % 10 = 0 THEN 'failed' ELSE 'succeeded' END,
    CASE WHEN n < 70 AND n % 10 = 0 THEN CASE WHEN n % 20 = 0 THEN 'timeout' ELSE 'refused' END END,
    now() - interval '90 seconds',
    CASE WHEN n < 50 THEN now() - interval '100 minutes' WHEN n < 70 THEN now() END,
    CASE WHEN n >= 70 THEN now() + interval '60 seconds' END
FROM generate_series(0, 74) n;
INSERT INTO headrace.results (job, id, status) VALUES ('default', 'x', 'claimed');
INSERT INTO headrace.attempts (job, id, attempt, run, outcome, billed, cost_usd, cost_bound_usd)
SELECT 'reviews', 'a-' || n, 1, CASE WHEN n < 50 THEN 'r0' ELSE 'r1' END, 'succeeded',
    CASE WHEN n % 7 = 0 THEN 'maybe' ELSE 'yes' END, CASE WHEN n % 7 > 0 THEN 0.01 END, 0.03
FROM generate_series(0, 69) n;
INSERT INTO headrace.workers (worker, seen_at) VALUES
    ('w1', now() + interval '1 hour'), ('w2', now() - interval '1 hour');
INSERT INTO headrace.circuits (endpoint, opened_at) VALUES ('http://a', now()), ('http://b', NULL);
"""
BACKFILLS = """
INSERT INTO headrace.backfills (job, target, cursor, results, rows, joined, failed, written, started_at, finished_at)
SELECT 'reviews', 't' || ago, '1', 0, 0, 0, 0, 0, now(), now() - make_interval(secs => ago)
FROM unnest('{300,100}'::int[]) ago
"""
TRUTH = {
    ("headrace_job_done_total", ("reviews",)): "results WHERE status = 'succeeded' AND job = 'reviews'",
    ("headrace_job_failed_total", ("reviews", "timeout")): "results WHERE reason = 'timeout' AND job = 'reviews'",
    ("headrace_job_failed_total", ("reviews", "refused")): "results WHERE reason = 'refused' AND job = 'reviews'",
    ("headrace_job_backlog", ("default",)): "results WHERE status = 'claimed' AND job = 'default'",
    ("headrace_workers_alive", ()): "workers WHERE seen_at > now()",
    ("headrace_circuits_open", ()): "circuits WHERE opened_at IS NOT NULL",
}
UP = ("headrace_exporter_up", ())


@pytest.fixture
def database(postgres: PostgresService) -> Iterator[str]:
    url = postgres.new_database()
    migrate(DatabaseSettings(url=url))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ROWS)
    yield url
    postgres.drop_database(url)


def test_its_figures_are_those_of_sql_and_it_ends_in_order(database: str, tmp_path: Path) -> None:
    with exporter(tmp_path, database) as running, psycopg.connect(database, autocommit=True) as connection:
        found = running.scrape()

        def sql(question: str) -> float:
            row = connection.execute(f"SELECT {question}".encode()).fetchone()
            assert row is not None
            return float(row[0])

        assert found[UP] == 1
        assert {name: found[name] for name in TRUTH} == {
            name: sql(f"count(*) FROM headrace.{what}") for name, what in TRUTH.items()
        }
        reviews = {
            name[0].removeprefix("headrace_job_"): value for name, value in found.items() if name[1] == ("reviews",)
        }
        assert reviews["published_total"] == 90
        assert reviews["backlog"] == 40 - sql(
            "count(*) FROM headrace.results WHERE run = 'r1' AND status <> 'claimed'"
        )
        for end in ("low_usd", "high_usd"):
            assert reviews[f"spend_{end}"] == pytest.approx(sql(f"sum({end}) FROM headrace.costs"))
        spent = sql("high_usd FROM headrace.costs WHERE run = 'r1'")
        assert reviews["budget_usd"] == 5
        assert reviews["budget_spent_usd"] == pytest.approx(spent)
        assert reviews["oldest_pending_seconds"] == pytest.approx(90, abs=30)
        states = {name[1][1] for name, value in found.items() if name[0] == "headrace_job_state" and value}
        assert states == {"paused"}
        assert get(running.port, "/healthz") == "ok\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(running.port, "/")
        assert running.end() == 0


def test_the_age_of_the_last_backfill_is_told_once_its_table_is_there(database: str) -> None:
    reader = Reader(DatabaseSettings(url=database))
    assert reader.read().jobs["reviews"].backfill_seconds is None
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE headrace.backfills RENAME TO not_there")
        assert reader.read().jobs["reviews"].backfill_seconds is None
        connection.execute("ALTER TABLE headrace.not_there RENAME TO backfills")
        connection.execute(BACKFILLS)
    assert reader.read().jobs["reviews"].backfill_seconds == pytest.approx(100, abs=30)
    reader.close()


def test_rows_that_ended_since_the_last_backfill_are_told(database: str) -> None:
    reader = Reader(DatabaseSettings(url=database))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO headrace.backfills (job, target, cursor, results, rows, joined, failed, written, started_at)"
            " VALUES ('reviews', 't', pg_snapshot_xmin(pg_current_snapshot()), 0, 0, 0, 0, 0, now())"
        )
        assert reader.read().jobs["reviews"].unjoined == 0
        connection.execute(
            "UPDATE headrace.results SET status = 'succeeded', completed_at = now() WHERE id IN ('a-70', 'a-71')"
        )
        assert reader.read().jobs["reviews"].unjoined == 2
        connection.execute("UPDATE headrace.backfills SET started_at = now(), cursor = pg_current_xact_id()")
    assert reader.read().jobs["reviews"].unjoined == 0
    reader.close()


def test_twenty_scrapes_at_once_are_one_set_of_queries(database: str) -> None:
    reader, readings = Reader(DatabaseSettings(url=database)), 0

    def read() -> Figures:
        nonlocal readings
        readings += 1
        return reader.read()

    shared = Shared(read, time.monotonic, lambda _: None)
    with Server("127.0.0.1", 0, lambda: series(shared.latest())) as server:
        Thread(target=server.serve_forever, args=[0.1], daemon=True).start()
        with ThreadPoolExecutor(20) as pool:
            found = [*pool.map(scrape, [server.port] * 20)]
        server.shutdown()
    assert all(one == found[0] for one in found)
    assert found[0][UP] == 1
    assert readings == 1
    reader.close()


def test_without_its_database_it_says_so_and_comes_back_with_it(
    database: str, postgres: PostgresService, tmp_path: Path
) -> None:
    with exporter(tmp_path, database) as running, psycopg.connect(postgres.url, autocommit=True) as server:
        assert running.scrape()[UP] == 1
        name = database.rpartition("/")[2].partition("?")[0]
        server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        wait_for(lambda: running.scrape() == {UP: 0}, 20, lambda: str(running.scrape()))
        assert get(running.port, "/healthz") == "ok\n"
        server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
        wait_for(lambda: running.scrape().get(UP) == 1, 20, running.log.read_text)
        assert "it can be read again" in running.log.read_text()
        assert "Traceback" not in running.log.read_text()
        assert running.end() == 0


def test_it_starts_without_a_database_and_keeps_the_password_to_itself(tmp_path: Path) -> None:
    with exporter(tmp_path, "postgresql://headrace:hunter2@127.0.0.1:1/headrace") as running:
        assert running.scrape() == {UP: 0}
        assert running.end() == 0
        said = running.log.read_text()
        assert "Check DATABASE_URL" in said
        assert "hunter2" not in said
