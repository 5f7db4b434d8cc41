"""Ranges of Kafka's partitions, read by place: no group is joined and nothing is ever committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from control.dead_letters.letters import Place, Raw
from control.topics import KafkaUnreachableError, TopicRefusedError
from schemas import kafka
from schemas.settings import KafkaSettings, SettingsError

T = TypeVar("T")
Partition: TypeAlias = tuple[str, int]
AnyMessage: TypeAlias = "Message[bytes, bytes]"

BROKER_SECONDS = 15.0
# No broker is silent for this long while it has something to give.
_PATIENCE_SECONDS = 30.0
_AGAIN_SECONDS = 0.2
_AT_ONCE = 500
_OF_MEMBERS = frozenset({"group.protocol", "group.remote.assignor", "group.instance.id"})
_ENDS = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._PARTITION_EOF})
_PASSING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)


class Ranges:
    """One consumer, for one range of reading at a time.

    Raises `KafkaUnreachableError` and `TopicRefusedError`, and `SettingsError` for properties that the client does
    not take.
    """

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        config = {k: v for k, v in kafka.consumer(settings, group).items() if k not in _OF_MEMBERS}
        own = {"enable.partition.eof": "true", "auto.offset.reset": "error", "log_level": "0"}
        self._servers = settings.bootstrap_servers
        try:
            self.consumer = Consumer({**config, **own, "error_cb": _heard})
        except (KafkaException, ValueError) as error:
            said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            advice = "check KAFKA_CONSUMER_CONF, KAFKA_SASL_* and KAFKA_SSL_*"
            raise SettingsError("settings", [f"kafka: {said}: {advice}"]) from None

    def read(self, ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[Raw]:
        """Read half-open ranges of offsets, each partition in its order; what has expired is not there."""
        ends = {partition: end for partition, (start, end) in ranges.items() if start < end}
        if not ends:
            return
        with self.translated(next(iter(ends))[0]):
            self.consumer.assign([TopicPartition(*partition, ranges[partition][0]) for partition in ends])
        try:
            while ends:
                yield from filter(None, [_taken(message, ends) for message in self._some(next(iter(ends))[0])])
        finally:
            self.consumer.unassign()

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        """The first offset that is still there, and the one that the next message will have."""
        place = TopicPartition(*partition)
        found = self.ask(partition[0], lambda: self.consumer.get_watermark_offsets(place, timeout=BROKER_SECONDS))
        if found is None:
            raise KafkaUnreachableError(f"{self._servers}: no answer for {BROKER_SECONDS:.0f} s")
        return found

    def ask(self, topic: str, question: Callable[[], T]) -> T:
        """Ask the brokers, again for a while where a partition or a group is changing hands."""
        with self.translated(topic):
            return _until_settled(question, time.monotonic() + _PATIENCE_SECONDS)

    @contextmanager
    def translated(self, topic: str) -> Iterator[None]:
        """Say in our own errors what the client says."""
        try:
            yield
        except KafkaException as error:
            said = error.args[0]
            if said.code() in _REFUSED:
                raise TopicRefusedError(f"topic {topic}: {said.str()}") from None
            raise KafkaUnreachableError(f"{self._servers}: {said.str()}") from None

    def _some(self, topic: str) -> list[AnyMessage]:
        """Some messages, or ends of partitions; waits no longer than anybody has patience for."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with self.translated(topic):
                first = self.consumer.consume(1, 0.5)
                # Asked for many at once, the client would wait for all of them.
                rest = self.consumer.consume(_AT_ONCE, 0) if first else []
            if found := [message for message in (*first, *rest) if _counts(message)]:
                return found
        raise KafkaUnreachableError(f"{self._servers}: nothing of {topic} came for {_PATIENCE_SECONDS:.0f} s")


def _until_settled(question: Callable[[], T], deadline: float) -> T:
    while True:
        try:
            return question()
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN_SECONDS)


def _taken(message: AnyMessage, ends: dict[Partition, int]) -> Raw | None:
    """The message, if it is within its range; strikes off a partition whose range is done."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    end = ends.get((topic, partition))
    if end is None:
        return None
    if message.error() is not None or offset is None or offset + 1 >= end:
        del ends[topic, partition]
    return None if message.error() is not None or offset is None or offset >= end else _raw(message, topic, partition)


def _heard(_error: KafkaError) -> None:
    """Librdkafka retries by itself; what does not heal shows where it is waited for."""


def _counts(message: AnyMessage) -> bool:
    """Tell a message or the end of a partition from a passing trouble; raises what does not pass."""
    error = message.error()
    if error is not None and (error.fatal() or error.code() in _REFUSED):
        raise KafkaException(error)
    return error is None or error.code() in _ENDS


def _raw(message: AnyMessage, topic: str, partition: int) -> Raw:
    kind, milliseconds = message.timestamp()
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Raw(
        place=Place(topic, partition, message.offset() or 0),
        key=message.key(),
        value=message.value(),
        headers=tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs),
        at=None if kind == TIMESTAMP_NOT_AVAILABLE else _instant(milliseconds),
    )


def _instant(milliseconds: int) -> datetime | None:
    """The instant a producer has named; one that counts in microseconds, say, names none that a calendar knows."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
