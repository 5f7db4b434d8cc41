"""`spark-submit backfill/job.py`: exit codes, the last line, and a database that dies in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
import yaml
from pyarrow import parquet
from pydantic import SecretStr

from backfill.source import database_session
from schemas.spark_jars import DELTA
from tests.services import PostgresService
from tests.spark.backfilling import JOB, migrated

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]
SUBMIT = Path(sys.executable).parent / "spark-submit"
QUICK = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
KEYS = {"job", "results", "rows", "joined", "pending", "failed", "written", "orphans", "seconds", "exit"}
ROWS = 20_000
_READING = "state = 'active' AND query LIKE 'COPY (SELECT id,%' AND datname = current_database()"
NOWHERE = "postgresql://headrace:canary-secret@127.0.0.1:1/headrace"


@pytest.fixture(scope="module")
def url(postgres: PostgresService) -> str:
    """A database with an answer for every row of the source."""
    url = migrated(postgres)
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(
            "INSERT INTO headrace.results (job, id, status, result, completed_at) "
            "SELECT 'reviews', 'r-' || n, 'succeeded', repeat(md5(n::text), 30), '2026-03-08 02:30:00+00' "
            f"FROM generate_series(1, {ROWS}) n".encode()
        )
    return url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a source and a job file, whose paths are relative to it."""
    ids = [f"r-{n}" for n in range(1, ROWS + 1)]
    (tmp_path / "data").mkdir()
    parquet.write_table(pa.table({"id": ids, "text": ids}), tmp_path / "data" / "rows.parquet")
    write(tmp_path)
    return tmp_path


def write(folder: Path, **changes: Any) -> None:
    job = {
        "job": JOB,
        "source": {"format": "parquet", "path": "data"},
        "id": "id",
        "prompt": {"template": "{text}"},
        "target": {"format": "parquet", "path": "labelled"},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job | changes))


def start(folder: Path, url: str, *options: str, words: Sequence[str] = (), **environ: str) -> subprocess.Popen[str]:
    """Start the job from another folder, as a scheduler would; `words` are its own arguments."""
    command = [str(SUBMIT), *QUICK, *options, str(ROOT / "backfill" / "job.py")]
    return subprocess.Popen(
        [*command, "--job", str(folder / "job.yaml"), *words],
        cwd="/",
        env={**os.environ, "DATABASE_URL": url, "PYSPARK_PYTHON": sys.executable, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    """Wait for its end and return its last line and all it said, since spark-submit puts both streams into one."""
    out, err = process.communicate(timeout=400)
    line = json.loads(out.strip().splitlines()[-1])
    assert process.returncode == line["exit"], out + err
    assert line.keys() - {"error", "note"} == KEYS
    return line, out + err


def run(folder: Path, url: str, *options: str, **environ: str) -> tuple[dict[str, Any], str]:
    return finish(start(folder, url, *options, **environ))


def times(folder: Path) -> set[str]:
    return {str(value) for value in parquet.read_table(folder / "labelled")["llm_completed_at"].to_pylist()}


def test_it_runs_from_anywhere_in_any_zone_and_says_little(folder: Path, url: str) -> None:
    zone = "-Duser.timezone=America/Los_Angeles"
    line, said = run(folder, url, "--driver-java-options", zone, TZ="Asia/Kolkata")

    assert (line["exit"], line["job"], line["results"], line["rows"]) == (0, JOB, ROWS, ROWS)
    assert (line["joined"], line["pending"], line["written"], line["orphans"]) == (ROWS, 0, ROWS, 0)
    assert "Exception" not in said
    assert times(folder) == {"2026-03-08 02:30:00+00:00"}
    assert parquet.read_table(folder / "labelled").num_rows == ROWS


def test_what_is_wrong_is_told_in_one_line_with_its_code(folder: Path, url: str) -> None:
    line, said = run(folder, NOWHERE)
    assert (line["exit"], "cannot be reached" in line["error"]) == (4, True)
    assert "canary-secret" not in said

    write(folder, target={"format": "delta", "path": "labelled"})
    line, said = run(folder, url)
    package = DELTA.coordinates(pyspark.__version__)
    assert (line["exit"], f"--packages {package}" in line["error"]) == (2, True)
    assert [text for text in said.splitlines() if text.startswith("backfill: ")] == [f"backfill: {line['error']}"]

    write(folder, target={"format": "iceberg", "table": "lake.db.labelled"})
    line, said = run(folder, url)
    assert (line["exit"], "run this job with Spark 4.1" in line["error"]) == (2, True)
    assert "Traceback" not in said


def test_a_second_one_on_the_same_target_ends_at_once(folder: Path, url: str) -> None:
    with database_session(SecretStr(url), "another job", str(folder / "labelled")):
        line, _ = run(folder, url)

    assert (line["exit"], line["written"]) == (0, 0)
    assert "already running" in line["note"]
    assert not (folder / "labelled").exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_reconciliation_ends_with_what_it_has_found(folder: Path, url: str) -> None:
    def told() -> tuple[int, dict[str, Any]]:
        process = start(folder, url, words=["--reconcile"])
        out, _ = process.communicate(timeout=400)
        return process.returncode, json.loads(out.strip().splitlines()[-1])

    run(folder, url)
    code, line = told()
    assert (code, line["exit"], line["exact"], set(line["faults"].values())) == (0, 0, ROWS, {0})
    (table,) = (folder / "labelled").glob("*.parquet")
    # Under another name: Hadoop keeps a sum of the file's bytes beside it.
    parquet.write_table(parquet.read_table(table).filter(pc.field("id") != "r-17"), folder / "labelled/less.parquet")
    table.unlink()
    code, line = told()
    assert (code, line["faults"]["missing"], line["ids"]) == (1, 1, {"missing": ["r-17"]})
    assert "1 missing" in line["error"]
    with database_session(SecretStr(url), "another job", str(folder / "labelled")):
        code, line = told()
    assert (code, "is running" in line["error"]) == (1, True)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_database_that_dies_in_the_middle_leaves_the_target_as_it_was(folder: Path, url: str) -> None:
    process = start(folder, url)
    with psycopg.connect(url, autocommit=True) as database:
        deadline = time.monotonic() + 120
        while not _cut_readers(database):
            assert time.monotonic() < deadline, "no reader came"
    line, said = finish(process)

    assert line["exit"] == 1
    assert "reading results from the database failed" in line["error"]
    assert "Traceback" not in said
    assert not (folder / "labelled").exists()
    assert run(folder, url)[0]["written"] == ROWS


def _cut_readers(database: psycopg.Connection) -> bool:
    found = database.execute(
        f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {_READING}".encode()
    ).fetchone()
    return bool(found and found[0])
