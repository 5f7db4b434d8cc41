"""Which jars a job needs, and the words for those that are not there or do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import spark_jars
from schemas.job import Job
from schemas.spark_jars import DELTA, ICEBERG, Presence

POSTGRES = {"format": "jdbc", "options": {"url": "jdbc:postgresql://h/d", "dbtable": "t"}}


def job(source: dict[str, Any], target: dict[str, Any]) -> Job:
    whole = {"job": "j", "id": "id", "prompt": {"template": "{t}"}, "source": source, "target": target}
    return Job.model_validate(whole)


def missing(whole: Job, spark: str) -> list[str]:
    return spark_jars.problems([(need, Presence.MISSING) for need in spark_jars.needs(whole)], spark)


def test_all_missing_jars_are_named_in_one_line_with_their_packages() -> None:
    found = missing(job(POSTGRES, {"format": "delta", "path": "x"}), "4.2.0")

    assert found == [
        "format delta and format jdbc: the jars are not there: start with `spark-submit --packages "
        "io.delta:delta-spark_4.2_2.13:4.4.0,org.postgresql:postgresql:42.7.14 ...`"
    ]


def test_a_driver_that_is_not_known_here_is_asked_for_by_its_class() -> None:
    source = {"format": "jdbc", "options": {"url": "jdbc:h2:mem:x", "dbtable": "t", "driver": "org.h2.Driver"}}
    found = missing(job(source, {"format": "parquet", "path": "x"}), "4.2.0")
    assert found == [
        "format jdbc: the jars are not there: start with `spark-submit --packages (the package of org.h2.Driver) ...`"
    ]


@pytest.mark.parametrize("presence", [Presence.MISSING, Presence.MISFIT])
def test_iceberg_is_refused_where_it_has_no_jar_for_spark(presence: Presence) -> None:
    (problem,) = spark_jars.problems([(ICEBERG, presence)], "4.2.0")

    assert "no jar of it for Spark 4.2 yet: run this job with Spark 4.1" in problem
    assert "--packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:" in problem


def test_what_fits_is_no_problem_on_any_spark() -> None:
    assert spark_jars.problems([(ICEBERG, Presence.FITS), (DELTA, Presence.FITS)], "4.9.0") == []
    assert "built for another Spark" in spark_jars.problems([(DELTA, Presence.MISFIT)], "4.2.0")[0]


def test_a_job_needs_what_it_reads_and_writes() -> None:
    whole = job({"format": "delta", "path": "a"}, {"format": "iceberg", "table": "lake.t"})

    assert spark_jars.needs(whole) == [DELTA, ICEBERG]
    assert spark_jars.needs(whole, target=False) == [DELTA]
    assert spark_jars.needs(job({"format": "csv", "path": "a"}, {"format": "parquet", "path": "b"})) == []


def test_extensions_are_added_to_those_that_are_there() -> None:
    both = [DELTA, ICEBERG]
    assert spark_jars.settings(both, "a.B")["spark.sql.extensions"].split(",") == [
        "a.B",
        DELTA.extension,
        ICEBERG.extension,
    ]
    assert spark_jars.settings([DELTA], DELTA.extension or "") == {}
