"""The dead-letter topic: messages that cannot be read, whole, with Kafka Connect's header names."""

from __future__ import annotations

import asyncio
import logging
import threading

from confluent_kafka import KafkaError, KafkaException, Producer

from schemas.dead_letters import ERRORS_PREFIX, OMITTED
from schemas.message import Unreadable
from worker.messages import Errors, made
from worker.ports import Record

log = logging.getLogger(__name__)

_DELIVERY_MILLISECONDS = 30_000
Headers = list[tuple[str, str | bytes | None]]


class KafkaDeadLetters:
    """Publishes with the idempotent producer and waits for each delivery report."""

    def __init__(self, config: dict[str, str], topic: str, group: str, worker: str) -> None:
        settings = {**config, "linger.ms": "5", "delivery.timeout.ms": str(_DELIVERY_MILLISECONDS)}
        wanted = {**settings, "error_cb": Errors()}
        self._producer = made(lambda: Producer(wanted, logger=logging.getLogger("librdkafka")))
        self._topic = topic
        self._group = group
        self._worker = worker
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="dead-letters", daemon=True)
        self._thread.start()

    async def put(self, record: Record, unreadable: Unreadable) -> bool:
        """Publish one and wait for its delivery; False if it was not delivered, after a line in the log."""
        headers = self._headers(record, unreadable)
        error = await self._deliver(record.key, record.value, headers)
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            size = str(len(record.value or b""))
            error = await self._deliver(record.key, None, [*headers, (OMITTED, size)])
        if error is not None:
            log.error("dead_letter.not_delivered", extra={"topic": self._topic, "what": error.name()})
        return error is None

    def close(self) -> None:
        """Stop the thread that serves delivery reports."""
        self._closing.set()
        self._thread.join(timeout=2.0)

    def _headers(self, record: Record, unreadable: Unreadable) -> Headers:
        """The original headers, then where the message came from and what class of fault it has: no text of it."""
        place = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "connector.name": self._group,
            "task.id": self._worker,
            "stage": "parse",
            "class.name": str(unreadable.reason),
            "exception.class.name": str(unreadable.reason),
        }
        return [*record.headers, *((f"{ERRORS_PREFIX}{name}", value) for name, value in place.items())]

    async def _deliver(self, key: bytes | None, value: bytes | None, headers: Headers) -> KafkaError | None:
        loop = asyncio.get_running_loop()
        delivered: asyncio.Future[KafkaError | None] = loop.create_future()

        def report(error: KafkaError | None, _message: object) -> None:
            loop.call_soon_threadsafe(_settle, delivered, error)

        try:
            self._producer.produce(self._topic, key=key, value=value, headers=headers, on_delivery=report)
        except (KafkaException, BufferError) as error:
            return error.args[0] if isinstance(error, KafkaException) else KafkaError(KafkaError._QUEUE_FULL)
        return await delivered

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.2)


def _settle(future: asyncio.Future[KafkaError | None], error: KafkaError | None) -> None:
    if not future.done():
        future.set_result(error)
