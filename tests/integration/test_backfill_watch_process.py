"""`spark-submit backfill/job.py --watch`: a database that goes away in the middle, and SIGTERM where it arrives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from control.migrate import migrate
from deploy.local.stack import throwaway_postgres
from schemas.settings import DatabaseSettings
from tests.fleet import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]
SUBMIT = Path(sys.executable).parent / "spark-submit"
QUICK = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
ROWS = 20_000


@contextmanager
def watching(folder: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    """Start the job and, whatever happens, leave nothing of it; what it says goes to files beside the job."""
    ids = [f"r-{n}" for n in range(ROWS)]
    (folder / "data").mkdir()
    parquet.write_table(pa.table({"id": ids, "text": ids}), folder / "data" / "rows.parquet")
    job = {"job": "reviews", "id": "id", "prompt": {"template": "{text}"}}
    job |= {"source": {"format": "parquet", "path": "data"}, "target": {"format": "parquet", "path": "labelled"}}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        command = [str(SUBMIT), *QUICK, str(ROOT / "backfill" / "job.py"), "--job", str(folder / "job.yaml")]
        process = subprocess.Popen(
            [*command, "--watch", "0.5"],
            env={**os.environ, "DATABASE_URL": url, "PYSPARK_PYTHON": sys.executable},
            stdout=out,
            stderr=err,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answer(url: str, first: int, last: int) -> None:
    with psycopg.connect(url) as database:
        database.execute(
            "INSERT INTO headrace.results (job, id, status, result, completed_at) "
            "SELECT 'reviews', 'r-' || n, 'succeeded', 'answer ' || n, now() "
            "FROM generate_series(%s::int, %s::int) n",
            [first, last - 1],
        )


def said(folder: Path) -> str:
    """All that was said: spark-submit puts both streams of Python into one."""
    return (folder / "out").read_text() + (folder / "err").read_text()


def one(url: str, question: str) -> int:
    with psycopg.connect(url) as database:
        row = database.execute(question.encode()).fetchone()
        return int(row[0]) if row else 0


def joined(url: str) -> int:
    return one(url, "SELECT joined FROM headrace.backfills")


def reading(url: str) -> bool:
    active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY (SELECT id,%'"
    return bool(one(url, active)) or joined(url) == ROWS


def test_an_outage_is_waited_for_and_sigterm_ends_after_the_run_that_it_meets(tmp_path: Path) -> None:
    with throwaway_postgres() as server:
        migrate(DatabaseSettings.read({"DATABASE_URL": server.url}))
        answer(server.url, 0, ROWS // 2)
        with watching(tmp_path, server.url) as process:
            wait_for(lambda: joined(server.url) == ROWS // 2, 120, lambda: said(tmp_path))
            server.stop()
            wait_for(lambda: "the next look is in" in said(tmp_path), 60, lambda: said(tmp_path))
            assert parquet.read_table(tmp_path / "labelled").num_rows == ROWS
            server.start()
            answer(server.url, ROWS // 2, ROWS)
            wait_for(lambda: reading(server.url), 60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, said(tmp_path)
        assert joined(server.url) == ROWS
    last = json.loads((tmp_path / "out").read_text().strip().splitlines()[-1])
    assert (last["exit"], last["rows"], last["joined"], last["pending"]) == (0, ROWS, ROWS, 0)
    table = parquet.read_table(tmp_path / "labelled", columns=["id", "llm_result"])
    found = dict(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    assert found == {f"r-{n}": f"answer {n}" for n in range(ROWS)}
    assert table.num_rows == ROWS
    assert "Traceback" not in said(tmp_path)
