"""A job's world with dead letters in it, and the command as its operator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from control.cli import app
from schemas.message import Prompt, decode
from schemas.topics import PARTITIONER
from tests.fleet import ROOT, Fleet, wait_for

Pairs = Sequence[tuple[str, str | bytes | None]]


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Its output, one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def object(self) -> dict[str, Any]:
        """Its output, one JSON object."""
        (found,) = self.objects
        return found


def command(world: Fleet, *words: str, **settings: str) -> Ran:
    """Run `headrace dead-letters ...` with a fleet's settings, in this process: its imports would cost 2 s a run."""
    mine = {name: None for name in os.environ if name.startswith(("KAFKA_", "LLM_"))}
    environ = {**mine, **world.env, "COLUMNS": "200", **settings}
    ended = CliRunner().invoke(app, ["dead-letters", *words], env=environ, catch_exceptions=False)
    return Ran(ended.exit_code, ended.stdout, ended.stderr)


def command_of_its_own(world: Fleet, *words: str) -> Ran:
    """The same as a process."""
    ended = subprocess.run(
        [sys.executable, "-m", "control", "dead-letters", *words],
        cwd=ROOT,
        env=world.env,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


def publish(world: Fleet, topic: str, key: bytes | None, value: bytes | None, headers: Pairs = ()) -> tuple[int, int]:
    """Publish one message; returns partition and offset."""
    places: list[tuple[int, int]] = []

    def report(error: object, stored: Message[bytes, bytes]) -> None:
        assert error is None, error
        places.append((stored.partition() or 0, stored.offset() or 0))

    producer = Producer({"bootstrap.servers": world.kafka, "partitioner": PARTITIONER})
    producer.produce(topic, key=key, value=value, headers=list(headers), on_delivery=report)
    assert producer.flush(30) == 0
    return places[0]


def bury(
    world: Fleet,
    value: bytes | None,
    *,
    key: bytes | None = b"r-1",
    reason: str = "unknown_version",
    place: tuple[str, int, int] | None = None,
    headers: Pairs = (),
) -> str:
    """Write a dead letter as a worker of another release would have; returns its reference."""
    topic, partition, offset = place or (world.topic, 0, 0)
    names = {"topic": topic, "partition": str(partition), "offset": str(offset), "class.name": reason}
    errors = [(f"__connect.errors.{name}", text) for name, text in names.items()]
    number, at = publish(world, world.dead_letter_topic, key, value, [*headers, *errors])
    return f"{world.dead_letter_topic}/{number}/{at}"


def body(world: Fleet, id_: str = "r-1", prompt: str = "Why?", **more: Any) -> bytes:
    """The value of a readable message."""
    return json.dumps({"id": id_, "prompt": prompt, "job": world.job, **more}, ensure_ascii=False).encode()


def topic_id(world: Fleet, topic: str) -> str:
    """The id of a topic."""
    admin = AdminClient({"bootstrap.servers": world.kafka})
    return str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id)


def fail(world: Fleet, id_: str = "r-1", reason: str = "timeout", headers: Pairs = (), **more: Any) -> str:
    """Publish a message and store its failed row, as a worker would have; returns the letter's reference."""
    value = body(world, id_, **more)
    partition, offset = publish(world, world.topic, id_.encode(), value, headers)
    prompt = decode(id_.encode(), value)
    assert isinstance(prompt, Prompt)
    store(world, id_, "failed", reason, prompt.fingerprint, (f"{topic_id(world, world.topic)}/{partition}", offset))
    return f"{world.topic}/{partition}/{offset}"


def store(
    world: Fleet, id_: str, status: str, reason: str | None, fingerprint: str, place: tuple[str | None, int | None]
) -> None:
    """Write a row of `results`."""
    with psycopg.connect(world.database) as connection:
        connection.execute(
            "INSERT INTO headrace.results"
            " (job, id, run, fingerprint, status, reason, log, log_offset, published_at, completed_at)"
            " VALUES (%s, %s, 'run-1', %s, %s, %s, %s, %s, now(), now())"
            " ON CONFLICT (job, id) DO UPDATE SET fingerprint = excluded.fingerprint, status = excluded.status,"
            " reason = excluded.reason,"
            " log = excluded.log, log_offset = excluded.log_offset, published_at = now()",
            (world.job, id_, fingerprint, status, reason, *place),
        )


def commit_all(world: Fleet, group: str) -> None:
    """Let a group have dealt with everything that is in the topic."""
    consumer = Consumer({"bootstrap.servers": world.kafka, "group.id": group, "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(world.topic, 10).topics[world.topic].partitions
        ends = [(p, consumer.get_watermark_offsets(TopicPartition(world.topic, p), 10)[1]) for p in partitions]
        consumer.commit(offsets=[TopicPartition(world.topic, p, end) for p, end in ends], asynchronous=False)
    finally:
        consumer.close()


def wait_for_leaders(world: Fleet) -> None:
    """Wait until each partition of a new topic answers."""
    consumer = Consumer({"bootstrap.servers": world.kafka, "group.id": "nobody"})

    def answers(place: TopicPartition) -> bool:
        try:
            return consumer.get_watermark_offsets(place, 10) is not None
        except KafkaException:
            return False

    try:
        for topic in (world.topic, world.dead_letter_topic):
            for partition in consumer.list_topics(topic, 10).topics[topic].partitions:
                wait_for(lambda: answers(TopicPartition(topic, partition)), 30)  # noqa: B023
    finally:
        consumer.close()


def topic_messages(world: Fleet, topic: str) -> list[Message[bytes, bytes]]:
    """Everything in a topic, read to its present end."""
    consumer = Consumer({"bootstrap.servers": world.kafka, "group.id": "nobody", "enable.auto.commit": False})
    try:
        found: list[Message[bytes, bytes]] = []
        for partition in consumer.list_topics(topic, 10).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
            consumer.assign([TopicPartition(topic, partition, low)])
            some: list[Message[bytes, bytes]] = []
            while len(some) < high - low:
                some += consumer.consume(high - low - len(some), 10)
            found += some
        return found
    finally:
        consumer.close()


def headers_of(message: Message[bytes, bytes]) -> Mapping[str, str]:
    """Headers as text."""
    pairs = message.headers() or []
    return {name: (value or b"").decode() for name, value in pairs}  # type: ignore[union-attr, str-unpack]
