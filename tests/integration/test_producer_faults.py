"""Brokers that die or keep nobody waiting: what was promised still holds."""

from __future__ import annotations

import gc
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from deploy.local.kafka import Kafka
from deploy.local.stack import throwaway_kafka
from producer.errors import DeliveryError, RunFailedError
from producer.pipeline import publish, reach
from producer.sink import Delivery, Headers
from schemas.settings import KafkaSettings
from tests.services import KafkaService
from tests.spark.producing import make_run, write_job
from tests.spark.reading_topics import SLOW, make_topic, read_all, wait_until_it_holds_some
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]

IMPATIENT = "message.timeout.ms=4000"


@pytest.fixture
def mortal_kafka() -> Iterator[Kafka]:
    with throwaway_kafka() as server:
        yield server


def test_every_acknowledgement_is_counted_and_a_missing_one_fails(mortal_kafka: Kafka) -> None:
    servers, topic = mortal_kafka.bootstrap_servers, "headrace.prompts.mortal"
    make_topic(servers, topic)
    settings = KafkaSettings.read({"KAFKA_BOOTSTRAP_SERVERS": servers, "KAFKA_PRODUCER_CONF": IMPATIENT})
    delivery = Delivery(settings, topic)
    keys = [f"r-{number}".encode() for number in range(2_500)]
    delivery.send(keys, [b"x" * 100] * 2_500)
    delivery.finish()
    assert (delivery.acked, delivery.bytes) == (2_500, 250_000 + sum(map(len, keys)))

    mortal_kafka.kill()
    delivery.send([b"late"], [b"x"])
    started = time.monotonic()
    with pytest.raises(DeliveryError, match=r"acknowledged 2500 of a task's 2501 messages"):
        delivery.finish()
    assert time.monotonic() - started < 30

    mortal_kafka.restart()
    assert len({message.key() for message in read_all(servers, topic)} - {b"late"}) == 2_500


@pytest.mark.parametrize("traced", [None, lambda _: [("a", b"b")]])
def test_a_client_goes_with_its_task(kafka: KafkaService, traced: Headers | None) -> None:
    topic = f"headrace.prompts.gone-{uuid.uuid4().hex[:8]}"
    make_topic(kafka.bootstrap_servers, topic)
    delivery = Delivery(KafkaSettings.read({"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}), topic, traced)
    delivery.send([b"r-1"], [b"x"])
    delivery.finish()
    gone = weakref.ref(delivery)
    gc.disable()
    try:
        del delivery
        assert gone() is None
    finally:
        gc.enable()


def test_a_queue_that_is_full_waits_for_the_broker(kafka: KafkaService) -> None:
    topic = f"headrace.prompts.full-{uuid.uuid4().hex[:8]}"
    make_topic(kafka.bootstrap_servers, topic)
    conf = "queue.buffering.max.messages=50,linger.ms=500"
    delivery = Delivery(
        KafkaSettings.read({"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers, "KAFKA_PRODUCER_CONF": conf}), topic
    )
    delivery.send([f"r-{number}".encode() for number in range(1_000)], [b"x"] * 1_000)
    delivery.finish()

    assert delivery.acked == 1_000
    assert len(read_all(kafka.bootstrap_servers, topic)) == 1_000


def test_a_broker_that_dies_ends_the_run_with_what_was_acknowledged(
    spark: SparkSession, tmp_path: Path, mortal_kafka: Kafka, database: str
) -> None:
    servers, topic = mortal_kafka.bootstrap_servers, "headrace.prompts.dying"
    spark.range(0, 60_000, 1, 2).selectExpr("id", "concat(id, repeat(' text', 50)) AS text").write.parquet(
        str(tmp_path / "rows")
    )
    environ = {
        "KAFKA_BOOTSTRAP_SERVERS": servers,
        "DATABASE_URL": database,
        "KAFKA_PRODUCER_CONF": f"{IMPATIENT},{SLOW}",
    }
    make_topic(servers, topic)
    run = make_run(write_job(tmp_path, job="dying"), environ, no_canary=True)
    killer = threading.Thread(target=kill_once_it_holds_some, args=(mortal_kafka, topic))
    killer.start()

    with pytest.raises(RunFailedError, match=r"kafka: topic headrace\.prompts\.dying acknowledged \d+ of a task's"):
        publish(spark, run, reach(run))

    killer.join()
    mortal_kafka.restart()
    held = {message.key() for message in read_all(servers, topic)}
    assert run.counts.published <= len(held) < 60_000
    with psycopg.connect(database) as connection:
        recorded = connection.execute("SELECT state, published FROM headrace.jobs WHERE job = 'dying'").fetchall()
    assert recorded == [("running", run.counts.published)]


def kill_once_it_holds_some(server: Kafka, topic: str) -> None:
    wait_until_it_holds_some(server.bootstrap_servers, topic)
    server.kill()
