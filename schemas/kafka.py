"""Client properties from the settings: one place for what every Kafka client of the product sets."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from schemas.settings import KafkaSettings
from schemas.topics import MAX_MESSAGE_BYTES, PARTITIONER

# Room for the record's own framing above the largest message we publish.
_FRAMING_BYTES = 100_000
# librdkafka tries these again for ever: the broker does not know us, or is not the one that we trust.
_REFUSED = frozenset({"_AUTHENTICATION", "_SSL"})
CHECK = "check KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_* and KAFKA_SSL_*"


Words: TypeAlias = str


class ClientError(Protocol):
    """What a client tells its `error_cb`."""

    def name(self) -> Words:
        """librdkafka's name of the error."""

    def str(self) -> Words:
        """What happened, with the broker's address, never with a secret."""


class Refusals:
    """A client's `error_cb`: keeps the last error that no repetition heals. The client must be polled to tell it."""

    def __init__(self) -> None:
        self.last: str | None = None

    def __call__(self, error: ClientError) -> None:
        """Hear one error."""
        if error.name() in _REFUSED:
            self.last = error.str()


def common(kafka: KafkaSettings) -> dict[str, str]:
    """Properties that reach and authenticate to the brokers; the password is in plain text, so never log them."""
    found: dict[str, object] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": kafka.security_protocol,
        "sasl.mechanism": kafka.sasl_mechanism,
        "sasl.username": kafka.sasl_username,
        "sasl.password": kafka.sasl_password.get_secret_value() if kafka.sasl_password else None,
        "ssl.ca.location": kafka.ssl_ca_location,
        "socket.keepalive.enable": "true",
        "client.id": "headrace",
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def producer(kafka: KafkaSettings) -> dict[str, str]:
    """Properties of a producer whose acknowledgement means: stored by all in-sync replicas, once, in order."""
    return {
        "linger.ms": "20",
        "compression.type": "lz4",
        **kafka.producer_conf,
        **common(kafka),
        "acks": "all",
        "enable.idempotence": "true",
        "partitioner": PARTITIONER,
        "message.max.bytes": str(MAX_MESSAGE_BYTES + _FRAMING_BYTES),
    }


def consumer(kafka: KafkaSettings, group: str) -> dict[str, str]:
    """Properties of a worker's consumer: it starts at the earliest message and commits only what it is told to.

    Prefetched messages are bounded in bytes over all partitions. With `group.protocol=consumer` the broker assigns
    partitions, and the classic protocol's own properties must be absent.
    """
    protocol = kafka.consumer_conf.get("group.protocol", "classic")
    classic = {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": "30000"}
    return {
        **(classic if protocol == "classic" else {}),
        "queued.max.messages.kbytes": "4096",
        "queued.min.messages": "2000",
        # A fetch may begin just before that bound is reached, and come on top of it.
        "fetch.max.bytes": str(2 * 1024 * 1024),
        "fetch.message.max.bytes": str(MAX_MESSAGE_BYTES + _FRAMING_BYTES),
        # The default of 1 s would starve a fast fleet each time the small queue above is full.
        "fetch.queue.backoff.ms": "20",
        "fetch.wait.max.ms": "100",
        # How soon a new topic that the expression matches is noticed.
        "topic.metadata.refresh.interval.ms": "5000",
        "metadata.max.age.ms": "10000",
        **kafka.consumer_conf,
        **common(kafka),
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "allow.auto.create.topics": "false",
    }
