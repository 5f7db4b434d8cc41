"""`kill -9` in every phase of a backfill: readers see the old table or the new one, and the next run completes it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from tests.fleet import wait_for
from tests.integration.stopped_job import SLOW_ID
from tests.services import PostgresService
from tests.spark.backfilling import JOB, Place, migrated
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]

STOPPED = Path(__file__).with_name("stopped_job.py")
ROOT = Path(__file__).resolve().parents[2]
# A JVM that is killed after a few small jobs: what makes it start sooner, and nothing else.
SUBMIT_ARGS = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
    " --driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
)
# A start of Spark takes seconds, and minutes on a machine that ten others use.
_LONG_S = 500
IDS = [f"r-{n}" for n in range(1, 41)]
# In two days, of which the run that is killed touches one.
DAYS = {id_: str(number % 2) for number, id_ in enumerate(IDS)}
TOUCHED = [id_ for id_ in IDS if DAYS[id_] == DAYS[SLOW_ID]]

# What a reader sees: of each id its answer; None where no table is there.
Sight = dict[str, str | None] | None
NONE: Sight = None
_OLD: dict[str, str | None] = dict.fromkeys(IDS, "old")
OLD: Sight = _OLD
NEW: Sight = _OLD | dict.fromkeys(TOUCHED, "new")
BY_DAY = {"target": {"partition_by": ["day"]}}
MADE: dict[str, dict[str, Any]] = {"whole": {}, "by day": BY_DAY}

# Point, what the target is before the run, what it is when the run is killed there, and changes of the job file.
KILLS: list[tuple[str, Sight, Sight, dict[str, Any]]] = [
    ("reading: nothing is read", OLD, OLD, {}),
    ("reading: one of two parts is read", OLD, OLD, {}),
    ("reading: one of two parts is read", NONE, NONE, {}),
    ("writing: about to", OLD, OLD, {}),
    ("writing: a file is open", OLD, OLD, {}),
    ("writing: a file is open", NONE, NONE, {}),
    ("writing: all files are there", OLD, OLD, {}),
    ("writing: some files are linked", OLD, OLD, BY_DAY),
    ("checking: about to", OLD, OLD, BY_DAY),
    ("checking: rows are counted", OLD, OLD, {}),
    ("checking: rows are counted", NONE, NONE, {}),
    ("switching: about to", OLD, OLD, {}),
    ("switching: done", OLD, NEW, {}),
    ("switching: between two renames", OLD, NONE, {}),
    ("switching: after two renames", OLD, NEW, {}),
    ("switching: about to show the first table", NONE, NONE, {}),
    ("switching: the first table shows", NONE, NEW, {}),
    ("clearing up: in the middle", OLD, NEW, BY_DAY),
    ("clearing up: in the middle, after two renames", OLD, NEW, {}),
    ("clearing up: done", OLD, NEW, {}),
    ("keeping the cursor: about to", OLD, NEW, {}),
    ("keeping the cursor: done", OLD, NEW, {}),
    ("telling: about to", OLD, NEW, {}),
]
# Two phases belong to every run of the tests, in one test; the rest to the long one.
_OFTEN = {"writing: a file is open", "switching: done"}
CASES = [
    pytest.param(*kill, id=f"{kill[0]}{', no table yet' if kill[1] is None else ''}", marks=marks)
    for kill in KILLS
    for marks in [[] if kill[0] in _OFTEN and kill[1] else [pytest.mark.slow]]
]


@pytest.fixture(scope="module")
def url(postgres: PostgresService) -> str:
    """A database whose `results` each test fills."""
    return migrated(postgres)


@pytest.fixture(scope="module")
def made(spark: SparkSession, url: str, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A source of rows in two days, and a target with an old answer to each, by day and not."""
    found = Place(spark, tmp_path_factory.mktemp("made"), url)
    found.source([(id_, DAYS[id_]) for id_ in IDS], "id string, day string")
    found.answer(*IDS, result="old")
    for name, changes in MADE.items():
        found.run(**changes)
        found.target.rename(found.folder / name)
    return found


@pytest.fixture
def place(made: Place, tmp_path: Path) -> Place:
    """The source in a place of its own, and old answers in the database."""
    found = Place(made.spark, tmp_path, made.url)
    found.execute("TRUNCATE headrace.results, headrace.former_results, headrace.backfills")
    shutil.copytree(made.folder / "rows", found.folder / "rows")
    found.answer(*IDS, result="old")
    return found


@dataclass
class Looker:
    """Somebody who reads the target again and again while it is written."""

    place: Place
    sights: list[Sight] = field(default_factory=list)
    looks: int = 0

    def look(self) -> None:
        sight = seen(self.place)
        self.looks += 1
        if sight not in self.sights:
            self.sights.append(sight)


def seen(place: Place) -> Sight:
    """The table as anybody reads it, by its path; None if there is none, or not all that was just listed."""
    try:
        table = parquet.read_table(place.target, columns=["id", "llm_result"])
    except FileNotFoundError:
        return None
    ids, results = (table[name].to_pylist() for name in ("id", "llm_result"))
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, results, strict=True))


@contextmanager
def looking(place: Place) -> Iterator[Looker]:
    """Look on a thread of its own."""
    looker, stop = Looker(place), threading.Event()
    broken: list[BaseException] = []

    def run() -> None:
        # Not without a pause: the run that is looked at needs the machine too.
        while not (broken or stop.wait(0.02)):
            try:
                looker.look()
            except BaseException as error:
                broken.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield looker
    finally:
        stop.set()
        thread.join()
    assert broken == []


def start(place: Place, point: str, mark: Path) -> subprocess.Popen[bytes]:
    environ = {"DATABASE_URL": place.url, "PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGS}
    with (place.folder / "said").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-P", str(STOPPED), point, str(mark), str(place.folder / "job.yaml")],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def stands(place: Place, process: subprocess.Popen[bytes], point: str, mark: Path) -> bool:
    """Tell whether the run has come to the point and stays there."""
    assert process.poll() is None, (place.folder / "said").read_text()
    if point != "writing: a file is open":
        return mark.exists()
    return any((place.folder / ".labelled.headrace-new").rglob("part-*.parquet"))


def idle(url: str) -> bool:
    """Tell whether the database has noticed the death, and given the lock on the target back."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headrace-backfill'"
            " AND datname = current_database()"
        ).fetchone()
        return row == (0,)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("point", "before", "after", "changes"), CASES)
def test_a_kill_in_any_phase_leaves_a_whole_table_and_the_next_run_completes_it(
    made: Place, place: Place, point: str, before: Sight, after: Sight, changes: dict[str, Any]
) -> None:
    if before:
        shutil.copytree(made.folder / ("by day" if changes else "whole"), place.target)
    assert seen(place) == before
    place.answer(*(TOUCHED if before else IDS), result="new", completed_at="2026-03-02 12:00:00+00")
    complete = NEW if before else dict.fromkeys(IDS, "new")
    expected = complete if after is NEW else after
    place.job(**changes)
    mark = place.folder / "mark"
    with looking(place) as looker:
        process = start(place, point, mark)
        try:
            wait_for(lambda: stands(place, process, point, mark), _LONG_S)
            looks = looker.looks
            wait_for(lambda: looker.looks > looks + 1, 60)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        looks = looker.looks
        wait_for(lambda: looker.looks > looks + 1, 60)

    assert all(sight in (before, None, complete) for sight in looker.sights), looker.sights
    assert seen(place) == expected
    wait_for(lambda: idle(place.url), 60)
    counts = place.run(**changes)
    assert (counts.rows, counts.joined, counts.orphans) == (len(IDS), len(IDS), 0)
    assert counts.written == (0 if expected == complete else len(TOUCHED if before else IDS))
    assert seen(place) == complete
    left = sorted(path.name for path in place.folder.iterdir() if "labelled" in path.name)
    assert left == ["labelled"]
    assert (_cursors(place) == 1) == (point in {"keeping the cursor: done", "telling: about to"})


def _cursors(place: Place) -> int:
    with psycopg.connect(place.url) as connection:
        row = connection.execute("SELECT count(*) FROM headrace.backfills WHERE job = %s", [JOB]).fetchone()
        return int(row[0]) if row else 0
