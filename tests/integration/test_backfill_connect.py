"""The backfill on a Spark Connect server: the table that the classic run makes, and an end that leaves nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyspark
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from schemas.spark_jars import DELTA, EXTENSIONS
from tests.fleet import ROOT, wait_for
from tests.integration.test_job_signals import held_up, said
from tests.integration.test_spark_connect import environment, serving, start
from tests.services import PostgresService
from tests.spark.backfilling import JOB, LABEL_SCHEMA, Place, migrated, plain
from tests.spark_session import delta_spark, spark, spark_packages

__all__ = ["delta_spark", "spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

RUN = "20260301T120000Z-1"
ROWS = 300
CHANGES = {"output": {"json_schema": "label.json"}}
_READERS = "FROM pg_stat_activity WHERE query LIKE 'COPY %' AND datname = current_database()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its log and its log of events."""
    found = tmp_path_factory.mktemp("connect")
    (found / "events").mkdir()
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """A server with Delta's jar, that writes down all that it is asked."""
    package = DELTA.coordinates(pyspark.__version__) or ""
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(folder / "events")}
    told = {**DELTA.defaults, EXTENSIONS: DELTA.extension or "", **events, "spark.eventLog.compress": "false"}
    with serving(folder, "--packages", package, **told) as remote:
        yield remote


@pytest.fixture(scope="module")
def url(postgres: PostgresService) -> str:
    """A database with the product's tables, whose results each test empties."""
    return migrated(postgres)


@pytest.fixture
def places(delta_spark: SparkSession, url: str, tmp_path: Path) -> tuple[Place, Place]:
    """The same job twice, with a table each: one is for the classic run, the other for that on the server.

    Of the rows one waits for another's answer, one is not answered yet, some failed, one has no id.
    """
    places = (made(delta_spark, tmp_path / "classic", url), made(delta_spark, tmp_path / "connect", url))
    places[0].execute("TRUNCATE headrace.results, headrace.former_results, headrace.backfills")
    places[0].execute(
        "INSERT INTO headrace.results (job, id, run, fingerprint, status, result, result_json, completed_at)"
        " SELECT %s, 'r-' || n, %s, 'f' || n, CASE WHEN n %% 10 = 9 THEN 'failed' ELSE 'succeeded' END,"
        " 'answer ' || n, jsonb_build_object('label', 'good', 'score', n / 7.0), '2026-03-01 12:00:00+00'"
        " FROM generate_series(0, %s) n WHERE n <> 1",
        JOB,
        RUN,
        ROWS - 2,
    )
    return places


def made(spark: SparkSession, folder: Path, url: str) -> Place:
    folder.mkdir()
    (folder / "label.json").write_text(json.dumps(LABEL_SCHEMA))
    place = Place(spark, folder, url, "delta")
    come(place, ROWS)
    place.requests(RUN, **{f"r-{n}": "f0" if n == 1 else f"f{n}" for n in range(ROWS)})
    (folder / "labelled_requests" / f"run={RUN}" / "_SUCCESS").touch()
    place.job_file(**CHANGES)
    return place


def come(place: Place, rows: int) -> None:
    """Let the source have so many rows, and one without an id."""
    place.source([*((f"r-{n}", f"What of {n}?") for n in range(rows)), (None, "no id")])


def joined(place: Place, server: str, *options: str) -> dict[str, Any]:
    return start("backfill", place.folder / "job.yaml", server, *options, DATABASE_URL=place.url)


@contextmanager
def running(place: Place, server: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start the job; whatever happens, nothing of it stays."""
    command = [sys.executable, str(ROOT / "backfill/job.py"), "--job", str(place.folder / "job.yaml"), *options]
    environ = environment(server) | {"DATABASE_URL": place.url}
    with (place.folder / "out").open("w") as out, (place.folder / "err").open("w") as err:
        process = subprocess.Popen(command, cwd="/", env=environ, stdout=out, stderr=err, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def lines(place: Place) -> list[dict[str, Any]]:
    """What the job has told so far."""
    return [json.loads(line) for line in (place.folder / "out").read_text().splitlines()]


def written(place: Place) -> list[int]:
    return [line["written"] for line in lines(place)]


def table(place: Place) -> list[tuple[Any, ...]]:
    return plain(place.rows(*sorted(place.table().columns)))


def readers(place: Place, act: str = "count(*)") -> int:
    """Count the tasks that read, or do something to each of them."""
    with psycopg.connect(place.url, autocommit=True) as database:
        row = database.execute(f"SELECT {act} {_READERS}".encode()).fetchone()
        return int(row[0]) if row else 0


def test_the_table_is_that_of_the_classic_run_and_no_secret_shows(
    server: str, folder: Path, places: tuple[Place, Place]
) -> None:
    classic, connect = places
    for news in (ROWS + 1, 1, 0):
        if news == 1:
            classic.answer("r-3", fingerprint="f3", result="corrected", completed_at="2026-03-02 12:00:00+00")
        line, counted = joined(connect, server), asdict(classic.run(**CHANGES))
        assert line["exit"] == 0, line["error"]
        assert {name: line[name] for name in counted} == counted
        assert (line["written"], line["joined"], line["rows"]) == (news, ROWS - 1, ROWS + 1)
        assert table(connect) == table(classic)

    line = joined(connect, server, "--reconcile")
    assert (line["exit"], line["exact"], set(line["faults"].values())) == (0, ROWS + 1, {0})
    said = [
        path.read_bytes() for path in folder.glob("**/*") if path.is_file() and path.suffix in ("", ".inprogress")
    ]
    password = connect.url.split("@")[0].rpartition(":")[2].encode()
    assert sum(b"headrace_results" in text for text in said)
    assert not [text for text in said if password in text]


def test_under_watch_new_rows_and_answers_come_in_one_session(server: str, places: tuple[Place, Place]) -> None:
    place = places[1]
    with running(place, server, "--watch", "1") as process:
        wait_for(lambda: written(place) == [ROWS + 1], 240, lambda: said(place.folder))
        # Another file: while a source is written anew a look may find none.
        more = [f"r-{n}" for n in range(ROWS, ROWS + 5)]
        parquet.write_table(pa.table({"id": more, "text": more}), place.folder / "rows/more.parquet")
        wait_for(lambda: written(place) == [ROWS + 1, 5], 120, lambda: said(place.folder))
        place.answer(f"r-{ROWS + 1}", result="late", completed_at="2026-03-02 12:00:00+00")
        wait_for(lambda: written(place) == [ROWS + 1, 5, 1], 120, lambda: said(place.folder))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_one_that_is_stopped_in_its_middle_ends_as_stopped_and_the_server_with_it(
    server: str, places: tuple[Place, Place]
) -> None:
    place = places[1]
    with held_up(place.url, place.folder, running(place, server)) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 3
        # While nothing lets them go on.
        wait_for(lambda: readers(place) == 0, 60)
    (line,) = lines(place)
    assert (line["exit"], line["written"], "stopped by SIGTERM" in line["error"]) == (3, 0, True)
    assert "Traceback" not in said(place.folder)
    assert not place.target.exists()


def test_a_read_that_fails_on_the_server_is_told_in_one_line(server: str, places: tuple[Place, Place]) -> None:
    place = places[1]
    with held_up(place.url, place.folder, running(place, server)) as process:
        wait_for(lambda: readers(place, "count(pg_terminate_backend(pid))") == 0 and process.poll() is not None, 120)
    (line,) = lines(place)
    assert (line["exit"], "reading results from the database failed" in line["error"]) == (1, True)
    assert not place.target.exists()
