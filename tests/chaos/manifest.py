"""Ledger P: what the broker has acknowledged, with the place of each message."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from schemas.fingerprint import fingerprint
from schemas.topics import PARTITIONER
from simulator.answers import answer
from tests.marks import EMAIL, MARKER, WIDE

MODEL = "simulated"
Place = tuple[int, int]
Produced = dict[str, Any]
Headers = list[tuple[str, str | bytes | None]]
_TRACED_SHARE = 10


@dataclass(frozen=True)
class Acked:
    """One acknowledged message; `fingerprint` is None where no worker can read it."""

    id: str
    place: Place
    fingerprint: str | None = None
    answer: str | None = None
    tombstone: bool = False


@dataclass
class Manifest:
    """Everything acknowledged so far; filled by publishers, read by the sampler and the checks."""

    acked: list[Acked] = field(default_factory=list)
    places: dict[Place, Acked] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def add(self, message: Acked) -> None:
        """Take in one acknowledgement."""
        self.acked.append(message)
        self.places[message.place] = message

    @property
    def readable(self) -> list[Acked]:
        """Messages that must end as a row."""
        return [message for message in self.acked if message.fingerprint is not None]

    @property
    def ids(self) -> set[str]:
        """Ids that must end as a row."""
        return {message.id for message in self.readable}

    @property
    def unreadable(self) -> list[Acked]:
        """Messages that must end in the dead letters."""
        return [m for m in self.acked if m.fingerprint is None and not m.tombstone]

    def versions(self) -> Mapping[str, list[Acked]]:
        """The messages of each id by place: the last one is the version that stands."""
        found: dict[str, list[Acked]] = defaultdict(list)
        for message in sorted(self.readable, key=lambda m: m.place):
            found[message.id].append(message)
        return found


def marked(number: int, chars: int = 120, start: int = 0) -> list[Produced]:
    """So many messages, each with the marks that must appear nowhere else."""
    texts = ((n, f"What of {n}? {MARKER} {EMAIL} {WIDE} ") for n in range(start, start + number))
    return [{"id": f"r-{n}", "prompt": text.ljust(chars, ".")} for n, text in texts]


class Publisher:
    """Publishes to one topic and keeps the acknowledgements; `job` goes into each message.

    With `traced` each tenth message begins a trace.
    """

    traced = False

    def __init__(self, bootstrap_servers: str, topic: str, job: str, manifest: Manifest) -> None:
        config = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "partitioner": PARTITIONER}
        self._producer = Producer({**config, "linger.ms": 5, "error_cb": lambda _: None, "log_level": 0})
        self._topic = topic
        self._job = job
        self._manifest = manifest
        self._thread: threading.Thread | None = None
        self._sent = 0

    def publish(self, messages: Iterable[Produced], partition: int = -1) -> None:
        """Publish and wait for every acknowledgement."""
        for message in messages:
            self._send(message, partition)
        assert self._producer.flush(120) == 0, "some messages were not acknowledged within two minutes"

    def trickle(self, messages: Sequence[Produced], per_second: float) -> None:
        """Publish in the background at a steady pace, whatever happens to the broker meanwhile."""
        self._thread = threading.Thread(target=self._paced, args=(messages, per_second), name="publisher")
        self._thread.start()

    def raw(self, key: bytes, value: bytes | None) -> None:
        """Publish bytes that no worker can read, or a null value."""
        bare = Acked(key.decode("utf8", "replace"), (0, 0), tombstone=value is None)
        self._produce(key, value, bare, -1)
        assert self._producer.flush(60) == 0

    def join(self, seconds: float = 300) -> None:
        """Wait until what trickles is acknowledged."""
        if self._thread is not None:
            self._thread.join(seconds)
            assert not self._thread.is_alive(), f"the publisher has not ended within {seconds} s"
            self._thread = None

    def _paced(self, messages: Sequence[Produced], per_second: float) -> None:
        began = time.monotonic()
        for number, message in enumerate(messages):
            while (ahead := number / per_second - (time.monotonic() - began)) > 0:
                self._producer.poll(min(ahead, 0.05))
            self._send(message, -1)
        self._producer.flush(240)

    def _send(self, message: Produced, partition: int) -> None:
        chat = [{"role": "user", "content": message["prompt"]}]
        text = fingerprint(message.get("model"), chat, message.get("params"), message.get("response_format"))
        known = Acked(message["id"], (0, 0), text, answer(chat, MODEL))
        value = json.dumps({"job": self._job, **message}, ensure_ascii=False)
        self._sent += 1
        trace: Headers = [("traceparent", f"00-{self._sent:032x}-{self._sent:016x}-01".encode())]
        headers = trace if self.traced and self._sent % _TRACED_SHARE == 0 else None
        self._produce(message["id"].encode(), value.encode(), known, partition, headers)

    def _produce(
        self, key: bytes, value: bytes | None, known: Acked, partition: int, headers: Headers | None = None
    ) -> None:
        def delivered(error: KafkaError | None, message: Message[bytes, bytes]) -> None:
            number, offset = message.partition(), message.offset()
            if error is not None or number is None or offset is None:
                self._manifest.refused.append(known.id)
            else:
                place = (number, offset)
                self._manifest.add(Acked(known.id, place, known.fingerprint, known.answer, known.tombstone))

        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, on_delivery=delivered, headers=headers)
            except BufferError:
                self._producer.poll(0.5)
            else:
                self._producer.poll(0)
                return
