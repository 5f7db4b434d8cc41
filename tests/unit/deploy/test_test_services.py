"""The ladder from which tests get their services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests import services
from tests.services import KafkaService


@contextmanager
def _rung(service: KafkaService, fault: str = "") -> Iterator[KafkaService]:
    if fault:
        raise RuntimeError(fault)
    yield service


_works = partial(_rung, KafkaService("c:1", "container"))
_fails = partial(_rung, KafkaService("c:1", "container"), "no such image")
_local = partial(_rung, KafkaService("l:1", "local"))


def test_a_container_serves_where_an_engine_answers() -> None:
    with services.climb(_works, _local, engine=True) as service:
        assert service.rung == "container"


def test_without_an_engine_the_local_stack_serves() -> None:
    with services.climb(_works, _local, engine=False) as service:
        assert service == KafkaService("l:1", "local")


def test_a_container_that_does_not_start_is_named_and_the_local_stack_serves() -> None:
    with services.climb(_fails, _local, engine=True) as service:
        assert service.bootstrap_servers == "l:1"
        assert "no such image" in service.rung


def test_when_nothing_works_the_reason_is_raised() -> None:
    with (
        pytest.raises(RuntimeError, match="no such image"),
        services.climb(_works, _fails, engine=False),
    ):
        pytest.fail("no service was there")


def test_a_tests_own_failure_is_not_taken_for_the_containers() -> None:
    with pytest.raises(ZeroDivisionError), services.climb(_works, _local, engine=True):
        raise ZeroDivisionError


def test_what_is_given_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TEST_KAFKA", "given:9092")
    with services.kafka() as service:
        assert service.bootstrap_servers == "given:9092"
