"""Source, requests, results and target compared, on real Spark and Postgres: what is wrong is found and named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from backfill import cursor
from backfill.counts import Counts
from backfill.reconcile import Findings, reconcile
from backfill.run import backfill
from backfill.source import database_session
from tests.services import PostgresService
from tests.spark.backfilling import JOB, Place, migrated
from tests.spark_session import delta_spark, spark, spark_packages

__all__ = ["delta_spark", "spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]
RUN = "20260301T120000Z-1"
# Who asks what; `b` waits for the answer to what `a` asks.
ASKS = {"a": "f1", "b": "f1", **{id_: f"f-{id_}" for id_ in "cdefgh"}}
ROWS = [(id_, f"text {id_}") for id_ in [*ASKS, "rejected"]]
NOTHING = dict.fromkeys("missing double different undelivered orphan lost rejects_missing".split(), 0)
NO_WAIT = dict.fromkeys("new_rows changed_rows answers in_flight waiting cancelled unproven".split(), 0)


@pytest.fixture(scope="module")
def url(postgres: PostgresService) -> str:
    return migrated(postgres)


@pytest.fixture(params=["parquet", pytest.param("delta", marks=pytest.mark.slow)])
def place(delta_spark: SparkSession, url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """A job whose run is done and whose answers are all in the target."""
    found = Place(delta_spark, tmp_path, url, request.param)
    found.execute("TRUNCATE headrace.results, headrace.former_results, headrace.jobs, headrace.backfills")
    found.source([*ROWS, (None, "no id")])
    asks = [(id_, fingerprint, id_ != "b") for id_, fingerprint in ASKS.items()]
    frame = found.spark.createDataFrame(asks, "id string, fingerprint string, asked boolean")
    frame.coalesce(1).write.parquet(f"{tmp_path / 'labelled'}_requests/run={RUN}")
    rejects = found.spark.createDataFrame([("rejected", "text rejected", "x"), (None, "no id", "x")],
                                          "id string, text string, reject_reason string")  # fmt: skip
    rejects.coalesce(1).write.parquet(f"{tmp_path / 'labelled'}_rejects/run={RUN}")
    found.execute(
        "INSERT INTO headrace.jobs (job, run, state, topic, read, rejected, deduplicated, published, created_at)"
        " VALUES (%s, %s, 'done', 't', 10, 2, 1, 7, now() - interval '1 hour')",
        JOB,
        RUN,
    )
    for id_, fingerprint in ASKS.items():
        if id_ != "b":
            found.answer(id_, result=f"answer {id_}", fingerprint=fingerprint, run=RUN)
    join(found)
    return found


def join(place: Place) -> None:
    """Carry out a backfill as the program does."""
    file = place.job()
    with database_session(SecretStr(place.url), JOB, file.target_name) as held:
        backfill(place.spark, file, held, Counts())
    assert cursor.keep(held.snapshot, file.target_name, Counts())


def look(place: Place) -> Findings:
    file = place.job()
    with database_session(SecretStr(place.url), JOB, file.target_name) as held:
        return reconcile(place.spark, file, held)


def tamper(place: Place, change: Callable[[DataFrame], DataFrame]) -> None:
    """Write the target anew, changed."""
    if place.format == "delta":
        change(place.table()).write.format("delta").mode("overwrite").save(str(place.target))
        return
    made = place.folder / "tampered"
    change(place.table()).coalesce(1).write.format(place.format).save(str(made))
    shutil.rmtree(place.target)
    made.rename(place.target)


def told(findings: Findings) -> dict[str, Any]:
    """What is not as it should be."""
    line = findings.told()
    return {"faults": {n: c for n, c in line["faults"].items() if c}, "ids": line["ids"],
            "pending": {n: c for n, c in line["pending"].items() if c}}  # fmt: skip


def test_what_agrees_is_exact_and_each_fault_is_found_and_named(place: Place) -> None:
    before = place.state()
    line = look(place).told()
    assert (line["faults"], line["pending"], line["ids"]) == (NOTHING, NO_WAIT, {})
    assert (line["exact"], line["answered"], line["rejected"]) == (10, 7, 2)
    assert (line["run"], line["state"]) == (RUN, "done")
    assert place.state() == before

    def spoil(table: DataFrame) -> DataFrame:
        of = fn.col("id")
        table = table.where("id IS NULL OR id <> 'c'").withColumns(
            {
                "text": fn.when(of == "e", "another text").otherwise(fn.col("text")),
                "llm_result": fn.when(of == "f", "another answer").otherwise(fn.col("llm_result")),
                # The row that waits for another one's answer has none.
                **{n: fn.when(of == "b", fn.lit(None)).otherwise(fn.col(n)) for n in table.columns if n > "llm"
                   and n not in ("llm_result", "text")},
            }
        )  # fmt: skip
        table = table.withColumn("llm_result", fn.when(of == "b", None).otherwise(fn.col("llm_result")))
        stranger = table.where("id = 'a'").withColumn("id", fn.lit("stranger"))
        return table.unionByName(table.where("id = 'd'")).unionByName(stranger)

    tamper(place, spoil)
    place.execute("DELETE FROM headrace.results WHERE id = 'g'")
    place.execute("UPDATE headrace.jobs SET rejected = 3")
    place.source([*ROWS, (None, "no id"), ("unheard", "of it nobody has written anything")])
    found = look(place)
    faults = {"missing": 1, "double": 1, "different": 2, "undelivered": 1, "orphan": 1, "lost": 1}
    assert told(found) == {
        "faults": {**faults, "rejects_missing": 1},
        "ids": {
            **{"missing": ["c"], "double": ["d"], "undelivered": ["b"], "orphan": ["stranger"], "lost": ["g"]},
            "different": ["e", "f"],
            "rejects_missing": ["unheard"],
        },
        "pending": {"new_rows": 1},
    }


def test_what_is_younger_than_the_last_backfill_or_under_way_is_pending(place: Place) -> None:
    place.answer("a", result="corrected", fingerprint="f1", run=RUN, completed_at="2026-03-02 12:00:00+00")
    place.source([*ROWS[1:], (None, "no id"), ("new", "text")])
    place.execute("DELETE FROM headrace.results WHERE id IN ('c', 'd')")
    place.execute(
        "UPDATE headrace.results SET status = 'claimed', claimed_until = now() + interval '1 h' WHERE id = 'e'"
    )
    found = look(place)
    assert told(found) == {
        "faults": {"lost": 2},
        "ids": {"lost": ["c", "d"]},
        # The corrected answer of `a`, whose row has gone, is for `b`.
        "pending": {"new_rows": 1, "answers": 1, "in_flight": 1},
    }
    assert found.rows["gone"] == 1


@pytest.mark.slow
def test_a_loss_is_told_only_where_the_run_proves_it(place: Place) -> None:
    place.execute("DELETE FROM headrace.results WHERE id IN ('c', 'd')")
    for state, word in (("running", "waiting"), ("cancelled", "cancelled")):
        place.execute("UPDATE headrace.jobs SET state = %s", state)
        found = told(look(place))
        assert (found["faults"], found["pending"][word]) == ({}, 2)
    # A run that was broken off, or had a limit, proves nothing; and a target older than its run lacks what it lacks.
    place.execute("UPDATE headrace.jobs SET state = 'done', published = 6, created_at = now()")
    tamper(place, lambda table: table.where("id IS NULL OR id <> 'h'"))
    assert told(look(place)) == {
        "faults": {},
        "ids": {},
        "pending": {"new_rows": 1, "unproven": 2},
    }
