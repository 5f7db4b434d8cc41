"""Kafka's messages as our own values, whatever a producer has put into them."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from worker.messages import AnyMessage, Errors, is_sound, record_of


class Message:
    """A message as the client hands it over."""

    def __init__(self, **fields: Any) -> None:
        self._fields = {"topic": "t", "partition": 3, "offset": 7, "key": b"k", "value": b"v", "headers": None,
                        "timestamp": (TIMESTAMP_CREATE_TIME, 1_767_225_600_500), "error": None} | fields  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        return lambda: self._fields[name]


def message(**fields: Any) -> AnyMessage:
    return cast(AnyMessage, Message(**fields))


def test_every_part_is_taken_over() -> None:
    record = record_of(message(headers=[("a", b"\xff"), ("b", None), ("a", "x")]), "id/3")
    assert (record.topic, record.partition, record.offset, record.key, record.value) == ("t", 3, 7, b"k", b"v")
    assert record.headers == (("a", b"\xff"), ("b", None), ("a", b"x"))
    assert record.timestamp == datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)
    assert record.log == "id/3"


def test_what_is_absent_stays_absent() -> None:
    record = record_of(message(key=None, value=None, timestamp=(TIMESTAMP_NOT_AVAILABLE, -1)), "id/3")
    assert (record.key, record.value, record.timestamp, record.headers) == (None, None, None, ())


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_time_that_no_calendar_knows_is_absent_and_does_not_end_the_consumer(milliseconds: int) -> None:
    record = record_of(message(timestamp=(TIMESTAMP_CREATE_TIME, milliseconds)), "id/3")
    assert record.timestamp is None or record.timestamp.tzinfo is UTC


def test_a_producer_that_counts_microseconds_is_no_poison() -> None:
    assert record_of(message(timestamp=(TIMESTAMP_CREATE_TIME, 1_767_225_600_000_000)), "id/3").timestamp is None


@pytest.mark.parametrize("code", [KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT])
def test_an_error_in_a_messages_place_is_passed_over(code: int) -> None:
    assert not is_sound(message(error=KafkaError(code)))
    assert is_sound(message())


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED),
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        KafkaError(KafkaError._FENCED, "x", fatal=True),
    ],
)
def test_what_cannot_heal_is_raised(error: KafkaError) -> None:
    with pytest.raises(KafkaException):
        is_sound(message(error=error))


def test_the_same_trouble_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    errors = Errors()
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            errors(KafkaError(KafkaError._ALL_BROKERS_DOWN))
            errors(KafkaError(KafkaError._TRANSPORT))
    assert len(caplog.records) == 2
