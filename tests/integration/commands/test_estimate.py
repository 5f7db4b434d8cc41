"""`headrace estimate` on a real Postgres: it rests on earlier rows, a canary or bounds, and says so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from control.cli import app
from tests.services import PostgresService

pytestmark = pytest.mark.integration
JOB = """
job: reviews
source: {format: parquet, path: rows}
id: id
clean: {columns: [text], max_chars: 100}
prompt: {template: "{text}"}
routes: [{when: "prompt_chars < 50", model: small}, {model: large}]
params: {max_tokens: 10}
target: {format: parquet, path: labelled}
"""
MODELS = """
models:
  small:
    endpoints: [{base_url: "http://a/v1", api_key_env: NOT_SET_HERE, rpm: 600}]
    price: {input_per_million: 1, output_per_million: 4}
  large:
    endpoints: [{base_url: "http://b/v1", api_key_env: NOT_SET_HERE, rpm: 600}]
    price: {input_per_million: 10, output_per_million: 40}
"""
# 200 rows: three in four asked small, 100 to 109 tokens and 20; the others large, twice as many.
RUN = """
INSERT INTO headrace.jobs (job, run, state, read, rejected, deduplicated, published)
    VALUES ('reviews', 'r1', 'STATE', 230, 10, 20, 200);
INSERT INTO headrace.results (job, id, run, fingerprint, status, model, completed_at)
    SELECT 'reviews', 'r-' || n, 'r1', md5(n::text), 'succeeded', (ARRAY['small', 'large'])[1 + (n % 4) / 3],
        now() - interval '1 hour' + make_interval(secs => n) FROM generate_series(0, 199) n;
INSERT INTO headrace.attempts (job, id, attempt, run, outcome, billed, prompt_tokens, completion_tokens, model,
    cost_usd)
    SELECT 'reviews', 'r-' || n, 1, 'r1', 'answered', 'yes', (100 + n % 10) * (1 + (n % 4) / 3),
        20 * (1 + (n % 4) / 3), (ARRAY['small', 'large'])[1 + (n % 4) / 3], 9 FROM generate_series(0, 199) n;
"""


class World:
    """A database, a job file and a models file."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.write("job.yaml", JOB)
        self.write("models.yaml", MODELS)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def run(self, state: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(RUN.replace("STATE", state).encode())

    def estimate(self, *words: str, **settings: str) -> Result:
        mine = dict.fromkeys(name for name in os.environ if name.startswith(("LLM_", "MODELS_")))
        env = {"DATABASE_URL": self.url, "MODELS_FILE": str(self.folder / "models.yaml"), **settings}
        command = ["estimate", "--job", str(self.folder / "job.yaml"), *words]
        return CliRunner().invoke(app, command, env={**mine, **env}, catch_exceptions=False)

    def told(self, *words: str, **settings: str) -> dict[str, Any]:
        ended = self.estimate("--json", *words, **settings)
        assert ended.exit_code == 0, ended.output
        found: dict[str, Any] = json.loads(ended.stdout)
        return found


@pytest.fixture
def world(postgres: PostgresService, tmp_path: Path) -> Iterator[World]:
    with postgres.migrated_database() as url:
        yield World(url, tmp_path)


def test_it_rests_on_earlier_rows_then_a_canary_then_bounds(world: World) -> None:
    assert world.estimate().exit_code == 2
    bounded = world.told("--rows", "1000")
    assert bounded["tokens"] == {"low": 0, "point": None, "high": 1000 * 100 * 4 / 2.5 + 10_000}
    assert bounded["usd"]["high"] == pytest.approx(1000 * 160 * 10 / 1e6 + 10_000 * 40 / 1e6)
    assert "no row was asked before" in bounded["rests_on"]
    assert bounded["time"]["at_least_seconds"] == pytest.approx(1000 / 20)

    world.run("running")
    found = world.told("--rows", "100000")
    assert (found["rests_on"], found["rows_are"]) == ("200 earlier results of this job", "given by --rows")
    means = {"small": 150, "large": 50}
    tokens = {
        model: [(100 + n % 10) * times + 20 * times for n in range(200) if (n % 4 < 3) == (model == "small")]
        for model, times in (("small", 1), ("large", 2))
    }
    assert {m["model"]: m["sampled"] for m in found["models"]} == means
    each = {m["model"]: m["tokens_per_row"] for m in found["models"]}
    for model, values in tokens.items():
        mean = sum(values) / len(values)
        assert each[model]["point"] == pytest.approx(mean, abs=0.01)
        assert each[model]["low"] < mean < each[model]["high"]
    rows = [((100 + n % 10) * (1 if n % 4 < 3 else 2), 20 * (1 if n % 4 < 3 else 2), n % 4 < 3) for n in range(200)]
    cost = sum(p + 4 * c if small else 10 * p + 40 * c for p, c, small in rows) / 200
    assert found["usd"]["point"] == pytest.approx(cost * 100_000 / 1e6, rel=1e-6)
    assert found["usd"]["low"] < found["usd"]["point"] < found["usd"]["high"]
    assert found["tokens"]["point"] == sum(p + c for p, c, _ in rows) / 200 * 100_000
    assert found["time"]["seconds"]["point"] == pytest.approx(100_000 / (0.9 * 200 / 180), rel=0.02)
    assert found["time"]["at_least_seconds"] == pytest.approx(100_000 * 0.75 / 10)
    assert "no worker is running now" in found["notes"]

    by_run = world.told()
    assert by_run["rows"] == 200
    assert by_run["rows_are"].startswith("requests of run r1 of ")
    plain = world.estimate().stdout
    assert "cost in USD: " in plain
    assert "rests on: 200 earlier results of this job" in plain


def test_a_canary_and_prices_of_their_time(world: World) -> None:
    world.run("cancelled")
    found = world.told("--rows", "10")
    assert found["rests_on"].startswith("the canary of run r1: 200 rows")
    assert found["confidence"] is None
    without = world.told("--rows", "10", MODELS_FILE="")
    assert without["usd"]["point"] == pytest.approx(90)
    assert without["prices"] == "what the calls cost at their time"
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute("INSERT INTO headrace.workers (worker) VALUES ('w')")
        connection.execute("UPDATE headrace.results SET completed_at = now() - random() * interval '100 seconds'")
    lately = world.told("--rows", "10")
    assert "of all jobs in the last 5 minutes" in lately["time"]["rests_on"]
    assert not [note for note in lately["notes"] if "worker" in note]


def test_what_is_wrong_is_said_with_its_exit_code(world: World) -> None:
    world.write("job.yaml", JOB.replace("model: large", "model: huge"))
    ended = world.estimate("--rows", "1")
    assert ended.exit_code == 2
    assert "routes.1.model: " in ended.stderr
    assert "knows no model huge; it knows large, small" in ended.stderr
    world.write("job.yaml", JOB)
    missing = world.estimate()
    assert missing.exit_code == 2
    assert "no run of reviews has told its counts: give --rows N" in missing.stderr
    away = world.estimate("--rows", "1", DATABASE_URL="postgresql://u@127.0.0.1:1/d")
    assert away.exit_code == 4
    assert "DATABASE_URL" in away.stderr
    assert world.estimate("--rows", "1", MODELS_FILE=str(world.folder / "no.yaml")).exit_code == 2
