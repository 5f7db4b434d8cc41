"""Kafka's messages and errors, turned into our own values."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, Message

from worker.core.offsets import Partition
from worker.errors import WrongSettingsError
from worker.ports import Record

log = logging.getLogger(__name__)

T = TypeVar("T")
AnyMessage: TypeAlias = "Message[bytes, bytes]"
_SAY_AGAIN_SECONDS = 60.0
# A topic that does not exist yet, or no longer, is waited for.
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._PARTITION_EOF})
_FORBIDDEN = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class Errors:
    """Client-wide errors, one line a minute each: librdkafka retries by itself."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def __call__(self, error: KafkaError) -> None:
        """Take librdkafka's word."""
        now = time.monotonic()
        if now - self._said.get(error.name(), -_SAY_AGAIN_SECONDS) >= _SAY_AGAIN_SECONDS:
            self._said[error.name()] = now
            log.warning("kafka.trouble", extra={"what": error.name()})


def made(make: Callable[[], T]) -> T:
    """Make a client; raises `WrongSettingsError` for properties that librdkafka does not take."""
    try:
        return make()
    except (KafkaException, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise WrongSettingsError(
            f"kafka: {said}: check KAFKA_CONSUMER_CONF, KAFKA_PRODUCER_CONF, KAFKA_SASL_* and KAFKA_SSL_*"
        ) from None


def is_sound(message: AnyMessage) -> bool:
    """Tell a message from an error in a message's place; raises what cannot heal by itself."""
    error = message.error()
    if error is None:
        return True
    if error.fatal() or error.code() in _FORBIDDEN:
        raise KafkaException(error)
    if error.code() not in _GONE:
        log.warning("kafka.message_error", extra={"what": error.name()})
    return False


def partition_of(message: AnyMessage) -> Partition:
    """The topic and number of a message's partition."""
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition


def record_of(message: AnyMessage, log_name: str) -> Record:
    """Our own copy of a message."""
    topic, partition = partition_of(message)
    offset, headers = message.offset(), message.headers() or []
    kind, milliseconds = message.timestamp()
    assert offset is not None
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        key=message.key(),
        value=message.value(),
        headers=tuple((name, value.encode() if isinstance(value, str) else value) for name, value in _pairs(headers)),
        timestamp=None if kind == TIMESTAMP_NOT_AVAILABLE else _instant(milliseconds),
        log=log_name,
    )


def _instant(milliseconds: int) -> datetime | None:
    """The instant a producer has named; one that counts in microseconds, say, names none that a calendar knows."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _pairs(
    headers: dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]],
) -> list[tuple[str, str | bytes | None]]:
    return list(headers.items()) if isinstance(headers, dict) else headers
