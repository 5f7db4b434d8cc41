"""Ledger C: committed offsets, sampled and checked while everything runs; and what the workers use meanwhile."""

from __future__ import annotations

import threading
import time
import urllib.error
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.chaos.manifest import Acked, Manifest, Place
from tests.fleet import Fleet, Worker

PARTITIONS = 6
_EVERY_SECONDS = 0.2
_LOOK_AT_WORKERS_EVERY = 5
_UNFINISHED = """
SELECT i.id, i.part, i.off FROM unnest(%(id)s::text[], %(fingerprint)s::text[], %(part)s::int[], %(off)s::bigint[])
    AS i(id, fingerprint, part, off)
WHERE NOT EXISTS (
    SELECT 1 FROM headrace.results r WHERE r.job = %(job)s AND r.id = i.id
    AND (r.status <> 'claimed' OR (r.fingerprint <> i.fingerprint AND r.log_offset > i.off)))
"""


@dataclass
class Samples:
    """What was seen; `early` are offsets below a commit without an end, `late` samples waited for the database."""

    taken: int = 0
    checked: int = 0
    late: int = 0
    failed: int = 0
    early: list[str] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    peak_rss_mb: float = 0.0
    peak_fds: int = 0
    peak_threads: int = 0


class Sampler:
    """Samples on a thread of its own, over direct connections, until `stop`."""

    def __init__(self, fleet: Fleet, manifest: Manifest, scrapes: Path) -> None:
        self.samples = Samples()
        self._fleet = fleet
        self._manifest = manifest
        self._scrapes = scrapes
        self._consumer = self._client(f"{fleet.job}")
        self._letters = self._client(f"{fleet.job}-letters")
        self._letters.assign([TopicPartition(fleet.dead_letter_topic, 0, 0)])
        self._buried: dict[Place, float] = {}
        self._verified: dict[int, int] = {}
        self._connection: psycopg.Connection[tuple[str, int, int]] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> Samples:
        """Take a last sample and end; asked again, give the same."""
        if self._stopping.is_set():
            return self.samples
        self._stopping.set()
        self._thread.join(60)
        self._consumer.close()
        self._letters.close()
        if self._connection is not None:
            self._connection.close()
        return self.samples

    def committed(self) -> int:
        """How many messages have been committed in all."""
        return sum(self.samples.committed.values())

    def _client(self, group: str) -> Consumer:
        config = {"bootstrap.servers": self._fleet.kafka, "group.id": group, "enable.auto.commit": False}
        return Consumer({**config, "error_cb": lambda _: None, "log_level": 0, "reconnect.backoff.max.ms": 500})

    def _run(self) -> None:
        turn = 0
        while not self._stopping.wait(_EVERY_SECONDS):
            self._sample()
            turn += 1
            if turn % _LOOK_AT_WORKERS_EVERY == 0:
                self._look_at_workers()
        self._sample()
        self._look_at_workers()

    def _sample(self) -> None:
        """First the commits, then the ends: rows can only be added, so what is missing now was missing then."""
        try:
            wanted = [TopicPartition(self._fleet.topic, number) for number in range(PARTITIONS)]
            found = self._consumer.committed(wanted, timeout=2)
        except KafkaException:
            self.samples.failed += 1
            return
        at = time.time()
        self.samples.taken += 1
        self.samples.committed |= {p.partition: p.offset for p in found if p.offset >= 0}
        self._check(at, self._newly_committed())

    def _newly_committed(self) -> list[Acked]:
        new: list[Acked] = []
        for partition, offset in self.samples.committed.items():
            start = self._verified.get(partition, 0)
            places = [(partition, number) for number in range(start, offset)]
            known = [self._manifest.places[place] for place in places if place in self._manifest.places]
            if len(known) == len(places):
                # An acknowledgement that is still on its way is looked at with the next sample.
                new += known
                self._verified[partition] = offset
        return new

    def _check(self, at: float, messages: list[Acked]) -> None:
        self.samples.checked += len(messages)
        rows = [message for message in messages if message.fingerprint is not None]
        buried = [message for message in messages if message.fingerprint is None and not message.tombstone]
        if rows:
            self.samples.early += self._without_end(rows)
        if buried:
            self._read_letters()
            late = [m for m in buried if self._buried.get(m.place, float("inf")) > at]
            self.samples.early += [f"{m.place}: committed before its dead letter" for m in late]

    def _without_end(self, messages: list[Acked]) -> list[str]:
        values = {
            "job": self._fleet.job,
            "id": [message.id for message in messages],
            "fingerprint": [message.fingerprint for message in messages],
            "part": [message.place[0] for message in messages],
            "off": [message.place[1] for message in messages],
        }
        waited = False
        while True:
            try:
                unfinished = self._database().execute(_UNFINISHED, values).fetchall()
            except psycopg.Error:
                self._connection = None
                waited = True
                if self._stopping.wait(0.1):
                    raise
            else:
                self.samples.late += waited
                return [f"{id_} at {part}:{off} committed without an end" for id_, part, off in unfinished]

    def _database(self) -> psycopg.Connection[tuple[str, int, int]]:
        if self._connection is None:
            self._connection = psycopg.connect(self._fleet.database, autocommit=True, connect_timeout=5)
        return self._connection

    def _read_letters(self) -> None:
        while found := self._letters.consume(500, 1.0):
            for letter in found:
                if letter.error() is None:
                    headers = dict(letter.headers() or [])
                    place = (_number(headers, "partition"), _number(headers, "offset"))
                    self._buried.setdefault(place, letter.timestamp()[1] / 1000)

    def _look_at_workers(self) -> None:
        for worker in list(self._fleet.workers):
            if worker.process.poll() is None:
                self._measure(worker)
                self._scrape(worker)

    def _measure(self, worker: Worker) -> None:
        root = Path(f"/proc/{worker.process.pid}")
        try:
            status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines())
            fds = sum(1 for _ in (root / "fd").iterdir())
            peak = int(status["VmHWM"].split()[0]) / 1024
        except (OSError, KeyError):
            return
        self.samples.peak_rss_mb = max(self.samples.peak_rss_mb, round(peak, 1))
        self.samples.peak_fds = max(self.samples.peak_fds, fds)
        self.samples.peak_threads = max(self.samples.peak_threads, int(status["Threads"]))

    def _scrape(self, worker: Worker) -> None:
        """Keep a worker's own words; one that is frozen or has no port yet has none."""
        if not any(event["event"] == "worker.starting" for event in worker.events[:50]) or _is_frozen(worker):
            return
        try:
            text = worker.get("/metrics")[1] + worker.get("/readyz")[1]
        except (OSError, urllib.error.URLError):
            return
        with self._scrapes.open("a") as out:
            out.write(text)


def _number(headers: dict[str, str | bytes | None], name: str) -> int:
    return int(headers[f"__connect.errors.{name}"] or -1)


def _is_frozen(worker: Worker) -> bool:
    try:
        return "T" in Path(f"/proc/{worker.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
