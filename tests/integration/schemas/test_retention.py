"""What the runbook says of retention does what it says: its own statements, on a real Postgres."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from control.migrate import migrate
from schemas.settings import DatabaseSettings
from tests.services import PostgresService

pytestmark = pytest.mark.integration
RUNBOOK = Path(__file__).resolve().parents[3] / "docs" / "runbook.md"
ROWS = """
INSERT INTO headrace.results (job, id, fingerprint, status, completed_at) VALUES
    ('reviews', 'a', 'f1', 'succeeded', now()), ('reviews', 'b', 'f2', 'failed', now()),
    ('reviews', 'c', 'f4', 'succeeded', now() - interval '9 days');
INSERT INTO headrace.former_results (job, fingerprint, id, status, completed_at, kept_at) VALUES
    ('reviews', 'f1', 'shared', 'succeeded', now() - interval '1 day', now()),
    ('reviews', 'f2', 'only failed elsewhere', 'succeeded', now() - interval '1 day', now()),
    ('reviews', 'f3', 'old', 'succeeded', now() - interval '1 year', now() - interval '1 year'),
    ('reviews', 'f4', 'later', 'succeeded', now(), now()),
    ('others', 'f3', 'of another job', 'succeeded', now() - interval '1 year', now() - interval '1 year');
INSERT INTO headrace.attempts (job, id, attempt, outcome, billed) VALUES ('reviews', 'a', 1, 'answered', 'yes');
"""


def test_what_nobody_needs_goes_and_nothing_else(postgres: PostgresService) -> None:
    drop, shared, old = (block.encode() for block in re.findall(r"```sql\n(.*?)```", RUNBOOK.read_text(), re.DOTALL))
    url = postgres.new_database()
    migrate(DatabaseSettings(url=url))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ROWS)

        def left() -> list[str]:
            return [row[0] for row in connection.execute("SELECT id FROM headrace.former_results ORDER BY id")]

        connection.execute(shared)
        assert left() == ["later", "of another job", "old", "only failed elsewhere"]
        connection.execute(old)
        assert left() == ["later", "of another job", "only failed elsewhere"]
        month = connection.execute("SELECT 'attempts_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')").fetchone()
        assert month is not None
        connection.execute(drop.replace(b"attempts_2026_01", month[0].encode()))
        assert connection.execute("SELECT count(*) FROM headrace.attempts").fetchall() == [(0,)]
    postgres.drop_database(url)
