"""Whether every row of the warehouse holds the answer that was given for that very row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyarrow import parquet

from deploy.demo.errors import DemoError
from schemas import requests_table
from schemas.message import Prompt, decode
from schemas.topics import prompts_topic
from simulator.answers import answer

_SILENCE_SECONDS = 10.0


def warehouse_rows(path: Path) -> list[dict[str, Any]]:
    """Read the target table whole."""
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def requests(target: Path) -> dict[str, str]:
    """Read which request each row asks, as the producer's last run said."""
    table = Path(requests_table.address(str(target)))
    newest = requests_table.complete_runs(str(file.relative_to(table)) for file in table.rglob("*"))[-1]
    return {row["id"]: row["fingerprint"] for row in parquet.read_table(table / newest).to_pylist()}


def check_labels(
    rows: list[dict[str, Any]], asked: Mapping[str, str], bootstrap_servers: str, job: str, model: str
) -> int:
    """Compare each answered row with what the simulator answers to its request; returns how many were compared.

    The messages are read back from the topic, so no answer is taken from the path under test. Raises `DemoError`.
    """
    expected = {prompt.fingerprint: _label(prompt, model) for prompt in _published(bootstrap_servers, job)}
    answered = {row["tweet_id"]: row["llm_output"]["label"] for row in rows if row["llm_status"] == "succeeded"}
    wrong = [id_ for id_, label in answered.items() if expected.get(asked[id_]) != label]
    if wrong:
        raise DemoError(f"{len(wrong)} rows hold another row's label, the first is {wrong[0]}")
    return len(answered)


def _label(prompt: Prompt, model: str) -> str:
    text = answer(list(prompt.messages), model, prompt.response_format)
    return str(json.loads(text)["label"])


def _published(bootstrap_servers: str, job: str) -> Iterator[Prompt]:
    """Every readable message on the job's topic, from its beginning to its present end."""
    topic = prompts_topic(job)
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "headrace-demo-check"})
    try:
        places = [
            TopicPartition(topic, number, 0) for number in consumer.list_topics(topic, 10).topics[topic].partitions
        ]
        left = sum(consumer.get_watermark_offsets(place, 10)[1] for place in places)
        consumer.assign(places)
        while left > 0:
            messages = consumer.consume(1000, _SILENCE_SECONDS)
            if not messages:
                raise DemoError(f"topic {topic} went silent with {left} messages unread")
            left -= len(messages)
            prompts = (decode(message.key(), message.value() or b"") for message in messages)
            yield from (prompt for prompt in prompts if isinstance(prompt, Prompt))
    finally:
        consumer.close()
