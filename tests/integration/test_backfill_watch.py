"""A watched target: answers found in whatever order they are committed, and looks without news that cost nothing."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pydantic import SecretStr
from pyspark.sql import SparkSession

from backfill import cursor
from backfill.counts import Counts
from backfill.errors import RunFailedError, SourceGoneError
from backfill.folders import Folders
from backfill.settings import BackfillSettings, read_settings
from backfill.source import Cursor, database_session
from backfill.watch import Pace, State, Watcher
from tests.fleet import wait_for
from tests.services import PostgresService
from tests.spark.backfilling import JOB, Place, migrated
from tests.spark_session import delta_spark, spark, spark_packages

__all__ = ["delta_spark", "spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]
WRITERS = 4


@pytest.fixture
def place(spark: SparkSession, postgres: PostgresService, tmp_path: Path) -> Place:
    return Place(spark, tmp_path, migrated(postgres))


def settings(place: Place) -> BackfillSettings:
    return read_settings({"DATABASE_URL": place.url})


@contextmanager
def watched(place: Place, seconds: float, **changes: Any) -> Iterator[list[Counts]]:
    """Watch the target on a thread; gives the counts of the runs that wrote. What failed a look fails the test."""
    told: list[Counts] = []
    failed: list[Exception] = []
    stop = threading.Event()
    watcher = Watcher(
        place.spark,
        settings(place),
        place.job(**changes),
        Pace(seconds),
        lambda counts, _: told.append(counts),
        failed.append,
    )
    thread = threading.Thread(target=watcher.run, args=[stop])
    thread.start()
    try:
        yield told
    finally:
        stop.set()
        thread.join()
    assert failed == []


def answered(place: Place) -> int:
    with psycopg.connect(place.url) as connection:
        row = connection.execute("SELECT joined FROM headrace.backfills WHERE job = %s", [JOB]).fetchone()
        return int(row[0]) if row else 0


def write(place: Place, seed: int, numbers: list[int], longest: float) -> None:
    """Store answers in transactions of several sizes, each committed some time after its clock and its number."""
    draw = random.Random(seed)
    with psycopg.connect(place.url) as connection:
        while numbers:
            some = numbers[: draw.randint(1, 60)]
            del numbers[: len(some)]
            with connection.transaction():
                connection.cursor().executemany(
                    "INSERT INTO headrace.results (job, id, status, result, completed_at)"
                    " VALUES (%s, %s, 'succeeded', %s, clock_timestamp())",
                    [(JOB, f"r-{n}", f"answer {n}") for n in some],
                )
                time.sleep(draw.random() ** 4 * longest)


def filled(place: Place, rows: int, longest: float) -> None:
    """Let the writers store an answer to every row of the source, at once and out of order."""
    numbers = random.Random(rows).sample(range(rows), rows)
    threads = [
        threading.Thread(target=write, args=(place, nth, numbers[nth::WRITERS], longest)) for nth in range(WRITERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def misses_nothing(place: Place, rows: int, longest: float) -> list[Counts]:
    place.spark.range(rows).selectExpr("concat('r-', id) AS id", "'x' AS text").write.parquet(
        str(place.folder / "rows")
    )
    with watched(place, 1.0) as told:
        filled(place, rows, longest)
        wait_for(lambda: answered(place) == rows, 120, lambda: f"{answered(place)} of {rows} are joined")
    found = {row.id: row.llm_result for row in place.table().collect()}
    assert place.table().count() == len(found) == rows
    assert found == {f"r-{n}": f"answer {n}" for n in range(rows)}
    assert sum(counts.written for counts in told[1:]) == rows - told[0].joined
    return told


def test_answers_that_are_committed_out_of_order_are_all_found(place: Place) -> None:
    assert len(misses_nothing(place, 1_000, 2.0)) > 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_four_writers_with_any_delay_and_twenty_thousand_answers(place: Place) -> None:
    assert len(misses_nothing(place, 20_000, 5.0)) > 5


def test_a_look_without_news_writes_and_reads_nothing(place: Place) -> None:
    place.source([("a", "x"), ("b", "y")])
    place.answer("a")
    with watched(place, 0.2) as told:
        wait_for(lambda: answered(place) == 1, 60)
        before = place.state()
        looked = finished_at(place)
        wait_for(lambda: finished_at(place) > looked, 30)
        assert place.state() == before
        place.answer("b")
        wait_for(lambda: answered(place) == 2, 60)
    assert [counts.written for counts in told] == [2, 1]
    assert told[1].results == 1


def test_a_changed_source_is_read_again(place: Place) -> None:
    place.source([("a", "x")])
    place.answer("a", "b")
    with watched(place, 0.2):
        wait_for(lambda: answered(place) == 1, 60)
        # As one step: what a look finds half-written is another test's.
        more = place.spark.createDataFrame([("b", "new")], "id string, text string").coalesce(1)
        more.write.parquet(str(place.folder / "more"))
        (file,) = (place.folder / "more").glob("*.parquet")
        file.rename(place.folder / "rows" / file.name)
        wait_for(lambda: answered(place) == 2, 60)


def test_what_a_producer_is_still_writing_is_no_news(place: Place) -> None:
    place.source([("a", "x")])
    watcher = Watcher(place.spark, settings(place), place.job(), Pace(0.1), lambda *_: None, lambda _: None)
    seen = watcher.signature()
    (place.folder / "labelled_requests" / "_draft-run-1").mkdir(parents=True)
    (place.folder / "labelled_requests" / "_draft-run-1" / "part.parquet").write_text("")
    assert watcher.signature() == seen
    place.requests("run-1", a="f1")
    assert watcher.signature() != seen


def test_the_cursor_waits_for_transactions_that_still_run(place: Place) -> None:
    place.source([("a", "x"), ("b", "y"), ("c", "z")])
    insert = "INSERT INTO headrace.results (job, id, status, result) VALUES (%s, %s, 'succeeded', 'late')"
    with psycopg.connect(place.url) as early:
        early.execute(insert, [JOB, "a"])
        place.answer("b")
        first = snapshot(place, None)
        assert first.count == 1
        early.commit()
    assert cursor.news(SecretStr(place.url), JOB, first.cursor)
    assert snapshot(place, first.cursor).fresh == 2
    last = snapshot(place, None).cursor
    assert not cursor.news(SecretStr(place.url), JOB, last)
    place.execute("UPDATE headrace.results SET result = 'corrected' WHERE id = 'b'")
    assert snapshot(place, last).fresh == 1


def test_a_database_that_is_younger_than_the_cursor_is_read_whole(place: Place) -> None:
    place.answer("a", "b")
    ahead = replace(snapshot(place, None).cursor, xid=str(2**60))
    assert cursor.news(SecretStr(place.url), JOB, ahead)
    assert (snapshot(place, ahead).since, snapshot(place, ahead).fresh) == (None, 2)


def test_a_cursor_of_another_run_of_the_server_hides_nothing_though_its_transactions_were_passed(
    place: Place,
) -> None:
    place.answer("a", "b")
    mine = snapshot(place, None).cursor
    assert not cursor.news(SecretStr(place.url), JOB, mine)
    restored = replace(mine, server="of another run")
    assert cursor.news(SecretStr(place.url), JOB, restored)
    assert (snapshot(place, restored).since, snapshot(place, restored).fresh) == (None, 2)


def test_files_that_vanish_while_they_are_listed_cost_one_look(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.source([("a", "x")])
    place.answer("a")
    stamp, failed, looks = Folders.stamp, list[Exception](), list[str]()

    def vanishing(folders: Folders, path: str) -> str:
        looks.append(path)
        if len(looks) == 1:
            raise Py4JError("An error occurred while calling o1.next: java.io.FileNotFoundException")
        return stamp(folders, path)

    monkeypatch.setattr(Folders, "stamp", vanishing)
    stop = threading.Event()
    watcher = Watcher(
        place.spark,
        settings(place),
        place.job(),
        Pace(0.1),
        lambda *_: stop.set(),
        failed.append,
    )
    assert watcher.run(stop).written == 1
    assert [type(error) for error in failed] == [RunFailedError]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_source_that_is_written_anew_costs_the_looks_that_find_it_gone(place: Place, kind: str) -> None:
    """Spark's overwrite takes the folder away first; then there is one without files."""
    rows = place.folder / "rows"

    def come(*ids: str) -> None:
        place.spark.createDataFrame([(id_, "x") for id_ in ids], "id string, text string").write.mode(
            "overwrite"
        ).format(kind).option("header", True).save(str(rows))

    def missed(error: Exception) -> None:
        failed.append(error)
        if not rows.exists():
            rows.mkdir()
        elif len(failed) == 2:
            come("a", "b")

    def told(counts: Counts, _seconds: float) -> None:
        written.append(counts.written)
        if len(written) == 1:
            shutil.rmtree(rows)
        else:
            stop.set()

    come("a")
    place.answer("a")
    failed, written, stop = list[Exception](), list[int](), threading.Event()
    job = place.job(source={"format": kind, "path": "rows"})
    Watcher(place.spark, settings(place), job, Pace(0.1), told, missed).run(stop)
    assert written == [1, 1]
    assert [type(error) for error in failed] == [SourceGoneError, SourceGoneError]
    assert {row.id for row in place.table().collect()} == {"a", "b"}


def test_a_source_that_has_never_been_there_ends_a_watch(place: Place) -> None:
    watcher = Watcher(place.spark, settings(place), place.job(), Pace(0.1), lambda *_: None, lambda _: None)
    with pytest.raises(SourceGoneError, match="does not exist"):
        watcher.run(threading.Event())


def test_when_everything_is_to_be_read() -> None:
    state, pace = State(Cursor("7", ""), "one", 100.0), Pace(10, full_every=60)
    assert not state.wants_all("one", 159.9, pace)
    assert state.wants_all("one", 160.0, pace)
    assert state.wants_all("other", 101.0, pace)


def snapshot(place: Place, since: Cursor | None) -> Any:
    with database_session(SecretStr(place.url), JOB, "anywhere", since) as held:
        return held.snapshot


def finished_at(place: Place) -> Any:
    with psycopg.connect(place.url) as connection:
        row = connection.execute("SELECT finished_at FROM headrace.backfills").fetchone()
        assert row is not None
        return row[0]
