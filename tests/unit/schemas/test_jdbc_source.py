"""What a job file may say of a JDBC source, and what Spark is told then."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from schemas import jdbc, sources
from schemas.job import Source

URL = "jdbc:postgresql://h/d"
CUT = {"numPartitions": 4, "partitionColumn": "n", "lowerBound": 1, "upperBound": 9}


def source(**options: Any) -> Source:
    return Source.model_validate({"format": "jdbc", "options": {"url": URL, "dbtable": "t"} | options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"numPartitions": 8},
        {"NUMPARTITIONS": 8, "fetchsize": 5, "sslmode": "require"},
        CUT,
        CUT | {"lowerBound": "2026-01-01", "upperBound": "2026-01-02 10:00:00"},
        CUT | {"url": "jdbc:mysql://h/d"},
        {"user": "u", "password_env": "SOURCE_PASSWORD"},
    ],
)
def test_what_can_be_read_has_no_problems(options: dict[str, Any]) -> None:
    assert list(sources.problems(source(**options))) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "postgresql://h/d"}, "source.options.url: must look like"),
        ({"url": f"{URL}?user=u&password=canary"}, "source.options.url: holds a password"),
        ({"url": "jdbc:mysql://u:canary@h/d"}, "source.options.url: holds a password"),
        ({"password": "canary"}, "source.options.password: no secret"),
        ({"sslPassword": "canary"}, "source.options.sslPassword: no secret"),
        ({"query": "SELECT 1"}, "source.options: jdbc needs dbtable or query"),
        ({"numPartitions": 0}, "source.options.numPartitions: must be"),
        ({"numPartitions": True}, "source.options.numPartitions: must be"),
        ({"partitionColumn": "n"}, "source.options.numPartitions: is missing"),
        (
            {"numPartitions": 4, "lowerBound": 1, "upperBound": 9},
            "source.options: lowerBound and upperBound go together",
        ),
        ({"numPartitions": 4, "partitionColumn": "n", "upperBound": 9}, "source.options: lowerBound and upperBound"),
        (CUT | {"lowerBound": 9}, "source.options.lowerBound: must be a number or an ISO date, and below upperBound"),
        (CUT | {"lowerBound": "a", "upperBound": "b"}, "source.options.lowerBound"),
        (CUT | {"lowerBound": 1, "upperBound": "2026-01-02"}, "source.options.lowerBound"),
        ({"url": "jdbc:mysql://h/d", "numPartitions": 4}, "source.options.numPartitions: only postgresql"),
    ],
)
def test_what_is_wrong_is_named_and_no_value_shown(options: dict[str, Any], problem: str) -> None:
    found = list(sources.problems(source(**options)))

    assert len(found) == 1
    assert found[0].startswith(problem)
    assert "canary" not in found[0]


def test_spark_is_told_the_driver_and_the_password_and_nothing_shows_it() -> None:
    read = jdbc.read(source(user="u", password_env="SOURCE_PASSWORD"), "id", SecretStr("canary"))

    assert read.options["driver"] == "org.postgresql.Driver"
    assert (read.options["password"], read.options["fetchsize"]) == ("canary", "10000")
    assert "password_env" not in read.options
    assert "canary" not in repr(read)


def test_a_query_stands_in_brackets_and_may_end_in_a_comment() -> None:
    options = {"url": URL, "query": "SELECT 1 AS id -- one\n;"}
    read = jdbc.read(Source.model_validate({"format": "jdbc", "options": options}), "id", None)
    assert read.options["dbtable"] == "(SELECT 1 AS id -- one\n\n) headrace_source"


def test_a_hash_cuts_by_the_id_whatever_its_name_holds() -> None:
    read = jdbc.read(source(numPartitions=2), 'the "id', None)

    assert read.predicates == (
        '(hashtext(CAST("the ""id" AS text)) & 2147483647) % 2 = 0 OR "the ""id" IS NULL',
        '(hashtext(CAST("the ""id" AS text)) & 2147483647) % 2 = 1',
    )
    assert not jdbc.CUTTING.intersection(read.options) - {"dbtable"}


@pytest.mark.parametrize(
    ("state", "words"),
    [("28P01", "password"), ("3D000", "database"), ("42P01", "query"), ("22003", None), (None, None)],
)
def test_states_of_a_database_are_told(state: str | None, words: str | None) -> None:
    told = jdbc.refusal(state)
    assert told is None if words is None else words in (told or "")
    assert not jdbc.is_unreachable(state)
    assert jdbc.is_unreachable("08001")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"format": "jdbc", "table": "t", "options": {"url": URL, "dbtable": "t"}},
            "source.table: jdbc is read by opt",
        ),
        ({"format": "parquet", "path": "x", "query": "SELECT 1"}, "source.query: parquet is read by its path"),
        ({"format": "table", "query": "SELECT 1", "path": "x"}, "source.path: table is read by its name"),
        ({"format": "table", "query": "SELECT 1", "options": {"a": 1}}, "source.options: say nothing to a query"),
    ],
)
def test_fields_of_other_formats_are_refused(fields: dict[str, Any], problem: str) -> None:
    found = list(sources.problems(Source.model_validate(fields)))
    assert [line.startswith(problem) for line in found] == [True]
