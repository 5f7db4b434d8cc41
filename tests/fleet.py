"""Real workers as processes, and the ledgers that say what they did: topic, results, attempts, dead letters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from control.migrate import migrate
from control.topics import make_topics
from schemas.settings import DatabaseSettings, KafkaSettings, TopicSettings
from schemas.topics import PARTITIONER, prompts_topic

ROOT = Path(__file__).resolve().parents[1]
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Worker:
    """One worker process with its log."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def metrics_port(self) -> int:
        """The port it took, as its first line says."""
        line = wait_for(lambda: next((e for e in self.events if e["event"] == "worker.starting"), None), 30)
        return int(line["metrics_port"])

    @property
    def events(self) -> list[dict[str, Any]]:
        """Its log, parsed."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one of its pages."""
        try:
            with _DIRECT.open(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def end(self, seconds: float = 45) -> int:
        """Wait for its end; gives the exit code."""
        return self.process.wait(seconds)


@dataclass
class Fleet:
    """A job's world: topic, database, workers. Names are its own, so fleets may share servers."""

    kafka: str
    database: str
    folder: Path
    base_url: str
    job: str = field(default_factory=lambda: f"job-{uuid.uuid4().hex[:10]}")
    settings: Mapping[str, str] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)

    @property
    def topic(self) -> str:
        """The job's own topic."""
        return prompts_topic(self.job)

    @property
    def dead_letter_topic(self) -> str:
        """The dead letters of this fleet alone."""
        return f"{self.job}.dead-letters"

    @property
    def env(self) -> dict[str, str]:
        """The settings of its workers."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "KAFKA_", "SIM"))}
        own = {
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka,
            "DATABASE_URL": self.database,
            "PROMPTS_TOPIC": f"^{self.topic}.*$".replace(".", r"\.").replace(r"\.*", ".*"),
            "DEAD_LETTER_TOPIC": self.dead_letter_topic,
            "CONSUMER_GROUP": self.job,
            "LLM_BASE_URL": self.base_url,
            "LLM_MODEL": "simulated",
            "METRICS_PORT": "0",
        }
        return {**clean, **own, **self.settings}

    def prepare(self, partitions: int = 6) -> None:
        """Migrate, and make the topics."""
        migrate(DatabaseSettings(url=self.database))
        self.make_topics(partitions)

    def make_topics(self, partitions: int = 6) -> None:
        """Make the topics of the job."""
        names = TopicSettings(prompts=self.topic, partitions=partitions, dead_letters=self.dead_letter_topic)
        make_topics(KafkaSettings(bootstrap_servers=self.kafka), names, [self.job])

    def start(self, workers: int = 1, **settings: str) -> list[Worker]:
        """Start workers; further settings by name."""
        new = [self._start(len(self.workers) + number, settings) for number in range(workers)]
        self.workers += new
        return new

    def publish(self, messages: Iterable[Mapping[str, Any]], topic: str | None = None) -> int:
        """Publish messages, each keyed by its id; returns how many were acknowledged."""
        acknowledged: list[None] = []
        producer = self._producer
        for message in messages:
            value = json.dumps({"job": self.job, **message}, ensure_ascii=False)
            producer.produce(
                topic or self.topic,
                key=message["id"].encode(),
                value=value.encode("utf8", "surrogatepass"),
                on_delivery=lambda error, _: acknowledged.append(None) if error is None else None,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        return len(acknowledged)

    @cached_property
    def _producer(self) -> Producer:
        """One for the fleet's life: each new one asks the broker for an identity first."""
        return Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True, "partitioner": PARTITIONER})

    def publish_raw(self, key: bytes | None, value: bytes | None) -> None:
        """Publish bytes as they are."""
        producer = Producer({"bootstrap.servers": self.kafka, "partitioner": PARTITIONER})
        producer.produce(self.topic, key=key, value=value)
        assert producer.flush(30) == 0

    def rows(self, what: str, where: str = "true") -> list[dict[str, Any]]:
        """Rows of `results` or `attempts` of this job."""
        with psycopg.connect(self.database, row_factory=psycopg.rows.dict_row) as connection:
            query = f"SELECT * FROM headrace.{what} WHERE job = %s AND {where}"
            return connection.execute(query, (self.job,)).fetchall()

    def ended(self) -> int:
        """Rows that have their end."""
        with psycopg.connect(self.database) as connection:
            query = "SELECT count(*) FROM headrace.results WHERE job = %s AND status <> 'claimed'"
            row = connection.execute(query, (self.job,)).fetchone()
            return int(row[0]) if row else 0

    def wait_until_ended(self, rows: int, seconds: float = 120) -> None:
        """Wait until so many rows have their end."""
        wait_for(lambda: self.ended() >= rows, seconds, lambda: f"{self.ended()} of {rows} rows have ended")

    def statuses(self) -> Counter[tuple[str, str | None]]:
        """Rows by status and reason."""
        return Counter((row["status"], row["reason"]) for row in self.rows("results"))

    def lag(self) -> int:
        """Messages of the topic that the group has not committed."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.job})
        try:
            partitions = consumer.list_topics(self.topic, 10).topics[self.topic].partitions
            committed = consumer.committed([TopicPartition(self.topic, p) for p in partitions], 10)
            ends = [consumer.get_watermark_offsets(place, 10) for place in committed]
            return sum(high - max(place.offset, low) for place, (low, high) in zip(committed, ends, strict=True))
        finally:
            consumer.close()

    def dead_letters(self) -> list[Message[bytes, bytes]]:
        """The dead-letter topic, read to its present end."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": uuid.uuid4().hex})
        try:
            place = TopicPartition(self.dead_letter_topic, 0, 0)
            _, end = consumer.get_watermark_offsets(place, 10)
            consumer.assign([place])
            found: list[Message[bytes, bytes]] = []
            while len(found) < end:
                found += consumer.consume(end - len(found), 10)
            return found
        finally:
            consumer.close()

    def close(self) -> None:
        """End every worker at once."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
            worker.process.wait()

    def _start(self, number: int, settings: Mapping[str, str]) -> Worker:
        log = self.folder / f"worker-{number}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker"], cwd=ROOT, env={**self.env, **settings}, stdout=out, stderr=out
            )
        return Worker(process, log)


@contextmanager
def fleet(kafka: str, database: str, folder: Path, base_url: str, **settings: str) -> Iterator[Fleet]:
    """A prepared fleet without workers; all of it ends with the block."""
    made = Fleet(kafka, database, folder, base_url, settings=settings)
    made.prepare()
    try:
        yield made
    finally:
        made.close()


def prompts(number: int, chars: int = 40, start: int = 0) -> list[dict[str, Any]]:
    """So many plain messages with ids of their own."""
    return [{"id": f"r-{n}", "prompt": f"What of {n}? ".ljust(chars, ".")} for n in range(start, start + number)]


def wait_for(found: Callable[[], Any], seconds: float, state: Callable[[], str] = lambda: "") -> Any:
    """Wait until something is true and return it; a deadline, never a fixed sleep."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {state()}")
        time.sleep(0.1)
    return value
