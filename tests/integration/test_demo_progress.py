"""A demo whose run is stopped on purpose says so with exit code 3, and does not wait for rows that will not end."""

from __future__ import annotations

import psycopg
import pytest

from control.migrate import migrate
from deploy.demo.errors import DemoError
from deploy.demo.progress import Progress
from schemas.settings import DatabaseSettings
from schemas.statuses import ExitCode
from tests.services import PostgresService

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("state", "paused_for", "said"),
    [
        ("paused", "budget", "the run is paused for its budget; .* headrace resume demo --budget-usd MORE"),
        ("paused", "operator", "the run is paused; .* headrace resume demo$"),
        ("cancelled", None, "the run is cancelled; .* publish again"),
    ],
)
def test_a_run_that_is_stopped_ends_the_wait(
    postgres: PostgresService, state: str, paused_for: str | None, said: str
) -> None:
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO headrace.jobs (job, run, state, paused_for) VALUES ('demo', 'run-1', %s, %s)",
            (state, paused_for),
        )
    progress = Progress(url, "demo", "run-1", lambda _: None)
    with pytest.raises(DemoError, match=said) as stopped:
        progress.wait(10, [], lambda _: None)
    assert stopped.value.exit_code is ExitCode.STOPPED
    progress.close()
    postgres.drop_database(url)
