"""Direct mode on a real Spark and a real Postgres, with no Kafka anywhere: each row once, and early ends."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from control.migrate import migrate
from producer.pipeline import publish, reach
from producer.run import Run
from schemas.settings import DatabaseSettings
from simulator.answers import answer
from tests.services import PostgresService
from tests.simulated import Simulated, simulated
from tests.spark.producing import make_run, write_job
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@dataclass
class Place:
    """A source, a database and an endpoint; the executors' environment is this test's own."""

    spark: SparkSession
    folder: Path
    database: str
    endpoint: Simulated
    job: str = field(default_factory=lambda: f"job-{uuid.uuid4().hex[:8]}")

    def tell(self, **environ: str) -> None:
        self.spark.sparkContext.environment.update(environ)

    def write(self, rows: int, files: int = 2) -> None:
        frame = self.spark.range(rows).selectExpr("concat('r-', id) AS id", "concat('What of ', id, '?') AS text")
        frame.repartition(files).write.mode("overwrite").parquet(str(self.folder / "rows"))

    def run(self, changes: dict[str, Any] | None = None, **arguments: Any) -> Run:
        # Whoever spoke to Kafka would fail.
        environ = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "DATABASE_URL": self.database}
        path = write_job(self.folder, **{"job": self.job, "mode": "direct", **(changes or {})})
        return make_run(path, environ, **arguments)

    def answer(self, changes: dict[str, Any] | None = None, **arguments: Any) -> Run:
        run = self.run(changes, **arguments)
        publish(self.spark, run, reach(run))
        return run

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def database(postgres: PostgresService) -> Iterator[str]:
    url = postgres.new_database()
    migrate(DatabaseSettings.read({"DATABASE_URL": url}))
    yield url
    postgres.drop_database(url)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, database: str) -> Iterator[Place]:
    before = dict(spark.sparkContext.environment)
    with simulated() as endpoint:
        made = Place(spark, tmp_path, database, endpoint)
        made.tell(LLM_BASE_URL=endpoint.base_url, LLM_MODEL="simulated", LOG_LEVEL="WARNING")
        yield made
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)


def test_every_row_is_answered_once_and_a_second_run_asks_nobody(place: Place) -> None:
    place.write(2000, files=4)
    run = place.answer()

    assert (run.counts.read, run.counts.published, run.counts.skipped) == (2000, 2000, 0)
    assert (run.told["answered"], run.told["failed"], run.told["open"], run.told["in_doubt"]) == (2000, 0, 0, 0)
    assert run.told["completion_tokens"] > 0
    found = dict(place.sql("SELECT id, result FROM headrace.results WHERE job = %s AND run = %s", place.job, run.id))
    asked = {f"r-{number}": [{"role": "user", "content": f"What of {number}?"}] for number in range(2000)}
    assert found == {id_: answer(messages, "simulated") for id_, messages in asked.items()}
    assert place.endpoint.stats()["calls"] == 2000
    recorded = place.sql("SELECT state, topic, published FROM headrace.jobs WHERE job = %s", place.job)
    assert recorded == [("done", None, 2000)]

    again = place.answer()
    assert (again.counts.published, again.counts.skipped, again.told["answered"]) == (0, 2000, 0)
    assert place.endpoint.stats()["calls"] == 2000
