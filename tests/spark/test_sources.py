"""Tables of every kind are read alike by producer and backfill: exact ids, filters pushed down, no row twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy.engine import make_url

from backfill import reading
from backfill.settings import read_job as backfill_job
from producer import source as producing
from producer.errors import UnreachableError, WrongJobError
from producer.settings import read_job as producer_job
from schemas.settings import SettingsError
from tests.services import PostgresService
from tests.spark.producing import write_job
from tests.spark_session import WITH_ICEBERG, delta_spark

__all__ = ["delta_spark"]
pytestmark = [pytest.mark.spark, pytest.mark.integration]

IDS = ["000123", "123", "21602730330000060100100000358582", "1e5", "true"]
ROWS = [(id_, f"text {id_}") for id_ in IDS]
NUMBERS = 1000


@pytest.fixture(scope="module")
def database(postgres: PostgresService) -> str:
    """Tables with text ids, with numbers and NULLs, and an empty one."""
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE reviews (id text, text text)")
        connection.execute('CREATE TABLE numbers ("the "" id" bigint, id bigint, text text)')
        connection.execute("CREATE TABLE nothing (id text, text text)")
        connection.cursor().executemany("INSERT INTO reviews VALUES (%s, %s)", ROWS)
        connection.execute(
            "INSERT INTO numbers SELECT n, nullif(n % 100, 0) * 1000 + n, 'x' "
            f"FROM generate_series(1, {NUMBERS}) n".encode()
        )
    return url


def both(spark: SparkSession, job: Path, environ: dict[str, str] | None = None) -> tuple[DataFrame, DataFrame]:
    """The rows as each job reads them."""
    theirs = producing.read(spark, producer_job(job, environ or {}), None).rows
    return theirs, reading.read(spark, backfill_job(job, environ or {}))


def jdbc(database: str, **options: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A JDBC source, and the environment that holds its password."""
    url = make_url(database)
    host = f"{url.host}:{url.port}" if url.host else str(url.query["host"])
    options = {"url": f"jdbc:postgresql://{host}/{url.database}", "user": url.username, **options}
    environ = {"SOURCE_PASSWORD": url.password} if url.password else {}
    return {"format": "jdbc", "options": options | ({"password_env": "SOURCE_PASSWORD"} if environ else {})}, environ


def plan(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(
    "kind", ["parquet", "delta", "table", "query", "jdbc", *(["iceberg"] if WITH_ICEBERG else [])]
)
def test_ids_stay_text_and_where_reaches_the_table(
    delta_spark: SparkSession, tmp_path: Path, database: str, kind: str
) -> None:
    frame = delta_spark.createDataFrame(ROWS, "id string, text string")
    environ: dict[str, str] = {}
    match kind:
        case "parquet" | "delta":
            frame.write.format(kind).save(str(tmp_path / "rows"))
            source = {"format": kind, "path": "rows"}
        case "iceberg":
            frame.writeTo("lake.tests.exact_ids").createOrReplace()
            source = {"format": "iceberg", "table": "lake.tests.exact_ids"}
        case "table":
            frame.write.format("delta").mode("overwrite").saveAsTable("exact_ids")
            source = {"format": "table", "table": "default.exact_ids"}
        case "query":
            frame.write.mode("overwrite").parquet(str(tmp_path / "rows"))
            source = {"format": "table", "query": f"SELECT id, text FROM parquet.`{tmp_path}/rows` -- all of them\n;"}
        case _:
            source, environ = jdbc(database, dbtable="public.reviews", numPartitions=3)

    job = write_job(tmp_path, source=source)
    for rows in both(delta_spark, job, environ):
        assert sorted(tuple(row) for row in rows.select("id", "text").collect()) == sorted(ROWS)

    filtered = write_job(tmp_path, source=source | {"where": "text = 'text 1e5' AND id != '7'"})
    for rows in both(delta_spark, filtered, environ):
        assert [row.id for row in rows.collect()] == ["1e5"]
        if kind == "iceberg":
            assert "text = 'text 1e5'" in plan(rows).partition("filters=")[2].partition("runtimeFilters")[0]
        else:
            pushed = plan(rows).partition("PushedFilters: [")[2].partition("]")[0]
            assert "EqualTo(text,text 1e5)" in pushed


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({"dbtable": "reviews"}, 1),
        ({"query": "SELECT id, text FROM reviews;"}, 1),
        ({"dbtable": "reviews", "numPartitions": 8}, 8),
        ({"dbtable": "numbers", "numPartitions": 8}, 8),
        ({"query": "SELECT id, text FROM numbers", "numPartitions": 2}, 2),
        ({"dbtable": "numbers", "numPartitions": 8, "partitionColumn": 'the " id'}, 8),
        ({"dbtable": "nothing", "numPartitions": 8}, 8),
        (
            {"dbtable": "numbers", "numPartitions": 4, "partitionColumn": "id", "lowerBound": 0, "upperBound": 99999},
            4,
        ),
        (
            {
                "query": "SELECT * FROM nothing",
                **{"numPartitions": 4, "partitionColumn": "id", "lowerBound": 0, "upperBound": 9},
            },
            0,
        ),
    ],
)
def test_a_read_in_parts_has_each_row_once(
    spark: SparkSession, tmp_path: Path, database: str, options: dict[str, Any], partitions: int
) -> None:
    table = next(name for name in ("reviews", "numbers", "nothing") if name in str(options))
    expected = {"reviews": len(IDS), "numbers": NUMBERS, "nothing": 0}[table]
    source, environ = jdbc(database, **options)
    job = write_job(tmp_path, source=source)
    if not partitions:
        with pytest.raises(WrongJobError, match="is text, which no range cuts"):
            both(spark, job, environ)
        return
    for rows in both(spark, job, environ):
        assert rows.count() == expected
        assert rows.rdd.getNumPartitions() == partitions


def test_hashed_parts_are_even(spark: SparkSession, tmp_path: Path, database: str) -> None:
    source, environ = jdbc(database, dbtable="numbers", numPartitions=4, partitionColumn='the " id')
    rows, _ = both(spark, write_job(tmp_path, source=source), environ)
    sizes = [len(part) for part in rows.rdd.glom().collect()]

    assert sum(sizes) == NUMBERS
    assert max(sizes) < 1.3 * NUMBERS / 4


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"dbtable": "gone"}, "refused the query"),
        ({"dbtable": "reviews", "user": "nobody_known"}, "refused user or password"),
        (
            {"dbtable": "numbers", "numPartitions": 4, "partitionColumn": "id", "lowerBound": 0, "upperBound": 9},
            "values lie outside of lowerBound and upperBound",
        ),
    ],
)
def test_what_the_database_refuses_is_told_in_one_line(
    spark: SparkSession, tmp_path: Path, database: str, options: dict[str, Any], problem: str
) -> None:
    source, environ = jdbc(database, **options)
    with pytest.raises(WrongJobError, match=problem) as raised:
        producing.read(spark, producer_job(write_job(tmp_path, source=source), environ), None)
    assert "\n" not in str(raised.value)


def test_a_database_that_is_not_there_is_unreachable(spark: SparkSession, tmp_path: Path) -> None:
    options = {"url": "jdbc:postgresql://127.0.0.1:1/x?connectTimeout=5", "dbtable": "reviews"}
    job = write_job(tmp_path, source={"format": "jdbc", "options": options})
    with pytest.raises(UnreachableError, match=r"source.options.url"):
        producing.read(spark, producer_job(job), None)


def test_a_query_cannot_act(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([("1", "x")], "id string, text string").createOrReplaceTempView("kept_view")
    for query in ("DROP VIEW kept_view", "SELECT id FROM no_such_table"):
        job = write_job(tmp_path, source={"format": "table", "query": query})
        with pytest.raises(WrongJobError, match="source: "):
            producing.read(spark, producer_job(job), None)
    assert spark.table("kept_view").count() == 1


def test_the_password_comes_from_its_variable_or_file(tmp_path: Path) -> None:
    options = {"url": "jdbc:postgresql://h/d", "dbtable": "t", "user": "u", "password_env": "SOURCE_PASSWORD"}
    job = write_job(tmp_path, source={"format": "jdbc", "options": options})
    (tmp_path / "secret").write_text(" canary-secret\n")

    file = producer_job(job, {"SOURCE_PASSWORD_FILE": str(tmp_path / "secret")})
    assert file.password is not None
    assert file.password.get_secret_value() == "canary-secret"
    assert "canary-secret" not in repr(file)
    with pytest.raises(SettingsError, match=r"source.options.password_env: SOURCE_PASSWORD .* is not set"):
        backfill_job(job, {})
