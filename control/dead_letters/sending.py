"""Publishing what is replayed: the idempotent producer, and a count of every delivery report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaException, Message, Producer

from control.dead_letters.letters import Headers
from schemas import kafka
from schemas.settings import KafkaSettings, SettingsError

# Nobody waits longer than this for one batch; a broker that is away so long is told of.
_DELIVERY_SECONDS = 60
Delivered = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, repr=False)
class Outgoing:
    """One message to publish."""

    topic: str
    key: bytes | None
    value: bytes
    headers: Headers


class Sender:
    """Publishes to prompts topics; `sent` counts what was given to it, `acknowledged` what all replicas have."""

    def __init__(self, settings: KafkaSettings) -> None:
        own = {"delivery.timeout.ms": str(_DELIVERY_SECONDS * 1000), "log_level": "0"}
        try:
            self._producer = Producer({**own, **kafka.producer(settings)})
        except (KafkaException, ValueError) as error:
            said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise SettingsError("settings", [f"kafka: {said}: check KAFKA_PRODUCER_CONF"]) from None
        self.sent = 0
        self.acknowledged = 0
        self.problems: set[str] = set()

    def send(self, message: Outgoing, delivered: Delivered) -> None:
        """Publish one; `delivered` is told partition and offset, if and when it is acknowledged."""

        def report(error: object, stored: Message[bytes, bytes]) -> None:
            if error is not None:
                self.problems.add(error.str())  # type: ignore[attr-defined]
                return
            self.acknowledged += 1
            delivered(stored.partition() or 0, stored.offset() or 0)

        self.sent += 1
        try:
            self._produce(message, report)
        except KafkaException as error:
            self.problems.add(error.args[0].str())

    def flush(self) -> None:
        """Wait until every message has its report; what has none when the time is over counts as not acknowledged."""
        self._producer.flush(_DELIVERY_SECONDS + 10)

    def _produce(self, message: Outgoing, report: Callable[..., None]) -> None:
        while True:
            try:
                self._producer.produce(
                    message.topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    on_delivery=report,
                )
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.5)
