"""Client properties from the settings: one place for what every Kafka client of the product sets."""

from __future__ import annotations

from schemas.settings import KafkaSettings
from schemas.topics import MAX_MESSAGE_BYTES, PARTITIONER

# Room for the record's own framing above the largest message we publish.
_FRAMING_BYTES = 100_000


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
