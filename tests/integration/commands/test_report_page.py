"""`headrace report` on a real Postgres of 100,000 rows: every number of the page is that of a plain question."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from control.cli import app
from tests.made_results import HOSTILE, JOB, RUN, make_results
from tests.pages import Page
from tests.services import PostgresService

pytestmark = pytest.mark.integration
ROWS = 100_000
# Measured: 2.4 s on two busy cores.
MOST_SECONDS = 30


@pytest.fixture(scope="module")
def database(postgres: PostgresService) -> Iterator[str]:
    with postgres.migrated_database() as url:
        make_results(url, ROWS)
        yield url


def report(database: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["report", *words], env={"DATABASE_URL": database}, catch_exceptions=False)


def ask(database: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        return connection.execute(question.encode()).fetchall()


def as_text(rows: list[tuple[Any, ...]]) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in rows]


@pytest.fixture(scope="module")
def page(database: str, tmp_path_factory: pytest.TempPathFactory) -> Page:
    place = tmp_path_factory.mktemp("page") / "page.html"
    began = time.monotonic()
    told = report(database, JOB, "--run", RUN, "--out", str(place))
    assert time.monotonic() - began < MOST_SECONDS
    assert (told.exit_code, told.stdout.strip()) == (0, str(place))
    return Page(place.read_text(encoding="utf-8"))


QUESTIONS = {
    "ended-numbers": """SELECT to_char(date_trunc('minute', completed_at), 'YYYY-MM-DD HH24:MI:SS'),
        count(*) FILTER (WHERE status = 'succeeded'), count(*) FILTER (WHERE status = 'failed')
        FROM headrace.results GROUP BY 1 ORDER BY 1""",
    "latency-numbers": """SELECT to_char(date_trunc('minute', finished_at), 'YYYY-MM-DD HH24:MI:SS'), count(*),
        round(percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ms)::numeric, 1),
        round(percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_ms)::numeric, 1),
        round(percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ms)::numeric, 1)
        FROM headrace.attempts GROUP BY 1 ORDER BY 1""",
    "failures-numbers": """SELECT reason, count(*) FROM headrace.results WHERE status = 'failed'
        GROUP BY 1 ORDER BY 2 DESC, 1""",
    "outcomes-numbers": """SELECT outcome, count(*), count(*) FILTER (WHERE attempt > 1),
        count(*) FILTER (WHERE billed = 'maybe') FROM headrace.attempts GROUP BY 1 ORDER BY 2 DESC, 1""",
    "tokens-numbers": """SELECT model, sum(prompt_tokens), sum(completion_tokens)
        FROM headrace.attempts GROUP BY 1 ORDER BY 2 DESC""",
    "spend-numbers": """SELECT model, endpoint, count(*), sum(cost_usd), sum(coalesce(cost_usd, cost_bound_usd)), 0
        FROM headrace.attempts GROUP BY 1, 2 ORDER BY 5 DESC""",
    "label-0-numbers": """SELECT result_json ->> 'label', count(*) FROM headrace.results WHERE status = 'succeeded'
        GROUP BY 1 ORDER BY 2 DESC""",
    "label-1-numbers": """SELECT result_json ->> 'urgent', count(*) FROM headrace.results WHERE status = 'succeeded'
        GROUP BY 1 ORDER BY 2 DESC""",
    "slowest": "SELECT id, latency_ms, outcome FROM headrace.attempts ORDER BY latency_ms DESC, id LIMIT 10",
    "retried": "SELECT id, count(*) FROM headrace.attempts GROUP BY id ORDER BY 2 DESC, id LIMIT 10",
}


@pytest.mark.parametrize("table", QUESTIONS)
def test_every_number_is_that_of_a_plain_question(database: str, page: Page, table: str) -> None:
    told, true = page.rows(table), as_text(ask(database, QUESTIONS[table]))
    assert len(true) > 1
    # Halves may be rounded either way.
    as_numbers = [[float(c) if c.replace(".", "").isdigit() else c for c in row] for row in told]
    wanted = [[float(c) if c.replace(".", "").isdigit() else c for c in row] for row in true]
    for mine, theirs in zip(as_numbers, wanted, strict=True):
        assert mine == [pytest.approx(c, abs=0.11) if isinstance(c, float) else c for c in theirs]


def test_the_four_answers_are_those_of_the_tables(database: str, page: Page) -> None:
    [(low, high, low_tokens, high_tokens, maybe)] = ask(
        database, "SELECT low_usd, high_usd, low_tokens, high_tokens, maybe_billed FROM headrace.costs"
    )
    said = " | ".join(page.words)
    for fact in (
        "running",
        f"run {RUN}",
        "97,000 rows succeeded, 3,000 failed",
        "2,000 rows",
        "3.00% of 100,000 that ended",
        "120 rows rejected",
        f"{low:,.4f} to {high:,.4f} USD",
        "of a budget of 60 USD",
        f"{low_tokens:,} to {high_tokens:,} tokens in",
        f"{maybe:,} calls maybe billed",
    ):
        assert fact in said
    assert low < high


def test_labels_are_text_and_other_answers_stay_where_they_are(page: Page) -> None:
    assert "script" not in page.names
    assert HOSTILE in [row[0] for row in page.tables["label-0-numbers"]]
    assert "label-2-numbers" not in page.tables
    assert "private" not in " ".join(page.words)


def test_what_nobody_knows_is_refused_and_leaves_no_file(database: str, tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    for words, told in (([JOB, "--run", "r9"], RUN), (["none"], "no job 'none'")):
        refused = report(database, *words, "--out", str(place))
        assert (refused.exit_code, told in refused.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_has_only_begun_is_told_beside_the_others(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO headrace.jobs (job, run, state) VALUES ('new', 'r1', 'running')")
    assert report(database, "new").stdout.strip() == "new-report.html"
    read = Page((tmp_path / "new-report.html").read_text(encoding="utf-8"))
    assert "nothing has ended" in read.words
    assert list(read.tables) == ["runs", "slowest"]
