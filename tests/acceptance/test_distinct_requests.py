"""38,000 tweets of which three in five repeat others: one call a request, one answer a row, nothing asked twice."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from pydantic import SecretStr
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from backfill.counts import Counts as Joined
from backfill.run import backfill
from backfill.settings import read_job
from backfill.source import database_session
from control.report.database import Comparison
from control.report.requests import RequestTables
from control.report.requests import read_job as read_report_job
from deploy.demo.texts import write_texts
from producer.counts import Counts
from producer.pipeline import publish, reach
from schemas.settings import DatabaseSettings
from simulator.answers import answer
from tests.fleet import Fleet, fleet, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, simulated
from tests.spark.producing import make_run, write_job
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

USUAL, OTHER = "Tweet: {text}\nSentiment:", "Of this tweet, say the sentiment: {text}"
SHORT = 100
ANSWER_SECONDS = 900


@dataclass
class World:
    """Tweets, two workers, a simulated endpoint that serves two models, and Spark."""

    spark: SparkSession
    folder: Path
    fleet: Fleet
    endpoint: Simulated
    texts: dict[str, str]

    def job(self, small: str) -> Path:
        return write_job(
            self.folder,
            job=self.fleet.job,
            clean={"columns": ["text"], "collapse_whitespace": True},
            prompt={"template": USUAL},
            routes=[{"when": f"prompt_chars < {SHORT}", "model": "small", "template": small}, {"model": "large"}],
        )

    def ask(self, small: str = USUAL) -> Counts:
        """Publish what has no answer, and wait until it has one."""
        environ = {"KAFKA_BOOTSTRAP_SERVERS": self.fleet.kafka, "DATABASE_URL": self.fleet.database}
        run = make_run(self.job(small), environ)
        self.endpoint.reset()
        publish(self.spark, run, reach(run))
        wait_for(lambda: self._answered(run.id) == run.counts.published, ANSWER_SECONDS)
        return run.counts

    def join(self, small: str = USUAL) -> Joined:
        file, counts = read_job(self.job(small)), Joined()
        with database_session(SecretStr(self.fleet.database), self.fleet.job, file.target_name) as held:
            backfill(self.spark, file, held, counts)
        return counts

    def calls(self) -> int:
        return int(self.endpoint.stats()["calls"])

    def asked(self, small: str = USUAL) -> dict[str, tuple[str, str]]:
        """Which model each row asks and how, told without the code under test; rows without text ask nothing."""
        found = {}
        for id_, text in self.texts.items():
            usual = USUAL.format(text=text)
            short = len(usual) < SHORT
            found[id_] = ("small", small.format(text=text)) if short else ("large", usual)
        return {id_: ask for id_, ask in found.items() if self.texts[id_]}

    def wrong(self, small: str = USUAL) -> list[str]:
        """Ids of rows that do not hold the endpoint's answer to their own text."""
        rows = self.target().select("id", "llm_result").collect()
        held = {row.id: row.llm_result for row in rows}
        assert len(rows) == len(held) == len(self.texts)
        told = {
            id_: answer([{"role": "user", "content": ask}], model) for id_, (model, ask) in self.asked(small).items()
        }
        return [id_ for id_ in self.texts if held[id_] != told.get(id_)]

    def target(self) -> Any:
        return self.spark.read.parquet(str(self.folder / "labelled"))

    def _answered(self, run: str) -> int:
        with psycopg.connect(self.fleet.database) as connection:
            query = "SELECT count(*) FROM headrace.results WHERE job = %s AND run = %s AND status = 'succeeded'"
            row = connection.execute(query, (self.fleet.job, run)).fetchone()
            return int(row[0]) if row else 0


def tweets(folder: Path) -> dict[str, str]:
    """Every tweet's id, and the text of another tweet for three in five of them."""
    write_texts(folder / "tweets.csv", None)
    with (folder / "tweets.csv").open(encoding="mac_roman", newline="") as file:
        rows = [(row["tweet_id"], " ".join(row["text"].split())) for row in csv.DictReader(file)]
    kept = [text for number, (_, text) in enumerate(rows) if number % 5 < 2]
    return {
        id_: text if number % 5 < 2 else kept[number * 7919 % len(kept)] for number, (id_, text) in enumerate(rows)
    }


@pytest.fixture
def world(spark: SparkSession, kafka: KafkaService, postgres: PostgresService, tmp_path: Path) -> Iterator[World]:
    texts = tweets(tmp_path)
    frame = spark.createDataFrame([*texts.items()], "id string, text string")
    frame.repartition(4).write.parquet(str(tmp_path / "rows"))
    with simulated() as endpoint:
        served = {
            name: {"endpoints": [{"base_url": endpoint.base_url, "model": name}]} for name in ("small", "large")
        }
        models = tmp_path / "models.yaml"
        models.write_text(yaml.safe_dump({"models": served}))
        settings = {"MODELS_FILE": str(models), "LLM_MODEL": "small"}
        with fleet(kafka.bootstrap_servers, postgres.new_database(), tmp_path, endpoint.base_url, **settings) as made:
            made.start(2)
            yield World(spark, tmp_path, made, endpoint, texts)


def test_each_distinct_request_is_called_once_and_answers_every_row(world: World) -> None:
    asked = world.asked()
    distinct = set(asked.values())
    rejected = len(world.texts) - len(asked)
    assert len(world.texts) > 38_000
    assert len(distinct) < 0.4 * len(world.texts)

    first = world.ask()
    assert world.calls() == len(distinct) == first.published
    assert (first.read, first.rejected, first.skipped) == (len(world.texts), rejected, 0)
    assert first.deduplicated == len(asked) - len(distinct)
    joined = world.join()
    assert (joined.joined, joined.pending, joined.orphans) == (len(asked), rejected, 0)
    assert world.wrong() == []
    sums = world.target().agg(fn.sum("llm_attempts"), fn.sum("llm_prompt_tokens")).first()
    calls = world.fleet.rows("attempts")
    assert tuple(sums) == (len(calls), sum(call["prompt_tokens"] for call in calls))

    second = world.ask()
    assert (second.published, second.skipped, world.calls()) == (0, len(distinct), 0)
    assert second.deduplicated == first.deduplicated
    assert world.join().written == 0

    only_small = {ask for ask in distinct if ask[0] == "small"}
    changed = world.ask(OTHER)
    assert world.calls() == changed.published == len(only_small)
    before, calls = len(calls), world.fleet.rows("attempts")
    assert Counter(call["model"] for call in calls)["large"] == before - len(only_small)
    assert world.join(OTHER).written == sum(model == "small" for model, _ in asked.values())
    assert world.wrong(OTHER) == []
    tells_the_difference(world, asked)

    back = world.ask()
    assert (back.published, world.calls()) == (0, 0)
    world.join()
    assert world.wrong() == []


def tells_the_difference(world: World, asked: dict[str, tuple[str, str]]) -> None:
    """The run that changed one tier's words, against the first one: told by hand from the texts alone."""
    now = world.asked(OTHER)
    otherwise = {id_ for id_ in asked if asked[id_] != now[id_]}
    told = {
        id_: [answer([{"role": "user", "content": ask[id_][1]}], ask[id_][0]) for ask in (asked, now)]
        for id_ in otherwise
    }
    changed = {id_ for id_, (before, after) in told.items() if before != after}
    tables = RequestTables(read_report_job(world.job(OTHER), world.fleet.job))
    with closing(Comparison(DatabaseSettings(url=SecretStr(world.fleet.database)), world.fleet.job)) as comparison:
        first, last = tables.runs[0], tables.runs[-1]
        found = comparison.compare(first, last, tables.rows(first), tables.rows(last))
    counts = found.counts
    assert (counts.rows_before, counts.rows_after, counts.added, counts.gone) == (len(asked), len(asked), 0, 0)
    assert counts.asked_otherwise == len(otherwise)
    assert counts.requests_otherwise == len({now[id_] for id_ in otherwise})
    assert (counts.changed, counts.same) == (len(changed), len(asked) - len(changed))
    assert counts.not_compared == 0
    assert found.cost.calls == len({now[id_] for id_ in otherwise})
