"""One trace from the message that was published to the row in Postgres, and no content in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from producer.sink import Delivery
from producer.spans import tracing
from schemas.settings import KafkaSettings, TracingSettings
from tests.fleet import Fleet, prompts, wait_for
from tests.otlp import Receiver, Span, receiver
from tests.services import KafkaService, PostgresService
from tests.simulated import simulated

pytestmark = pytest.mark.integration
# Two of the rows are asked again.
SCRIPT = {"rules": [{"match": {"ids": ["r-3", "r-7"], "attempts": [1]}, "status": 500}]}


def publish(fleet: Fleet, to: Receiver, number: int) -> None:
    """As a task of the producer does."""
    with tracing(TracingSettings(endpoint=to.url), fleet.topic) as traced:
        delivery = Delivery(KafkaSettings(bootstrap_servers=fleet.kafka), fleet.topic, traced)
        values = [json.dumps({"job": fleet.job, **one}).encode() for one in prompts(number)]
        delivery.send([one["id"].encode() for one in prompts(number)], values)
        delivery.finish()


def by_id(spans: list[Span], name: str) -> dict[str, Span]:
    return {one.attributes["headrace.id"]: one for one in spans if one.name.startswith(name)}


def test_a_row_can_be_followed_from_spark_to_postgres(
    kafka: KafkaService, postgres: PostgresService, tmp_path: Path
) -> None:
    with receiver() as to, simulated(SCRIPT, latency_ms=20) as endpoint:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": to.url, "LLM_API_KEY": "sk-canary"}
        settings["OTEL_BSP_SCHEDULE_DELAY"] = "100"
        fleet = Fleet(
            kafka.bootstrap_servers, postgres.new_database(), tmp_path, endpoint.base_url, settings=settings
        )
        fleet.prepare(1)
        publish(fleet, to, 20)
        fleet.start(1)
        fleet.wait_until_ended(20)
        wait_for(lambda: len(by_id(to.spans, "process")) == 20, 20)
        rows, attempts = fleet.rows("results"), fleet.rows("attempts")
        fleet.close()

    published, processed = by_id(to.spans, "publish"), by_id(to.spans, "process")
    assert published.keys() == processed.keys() == {row["id"] for row in rows}
    for id_, prompt in processed.items():
        assert (prompt.trace, prompt.parent) == (published[id_].trace, published[id_].id)
        inner = [one for one in to.spans if one.parent == prompt.id]
        calls = [one for one in inner if one.name.startswith("chat")]
        assert len(calls) == sum(row["id"] == id_ for row in attempts)
        assert [one.name for one in inner if one not in calls] == ["store"]
        assert all(prompt.start <= one.start <= one.end <= prompt.end for one in inner)
        assert {one.trace for one in inner} == {prompt.trace}
    failed = [one for one in to.spans if one.failed]
    assert len(failed) == 2
    assert all(one.attributes["error.type"] for one in failed)
    for text in (b"What of", b"sk-canary", *(row["result"].encode() for row in rows if row["result"])):
        assert text not in to.received
