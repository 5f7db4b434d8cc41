"""What liveness and readiness say, and why."""

from __future__ import annotations

import time

import pytest

from schemas.statuses import Reason
from tests.fakes.endpoint import FakeEndpoint, answer
from tests.fakes.fleet import upstream, upstreams
from worker.core.circuit import RUN_FAULTS
from worker.core.outcome import Kind, Outcome
from worker.upstreams import Upstream
from worker.vitals import STUCK_SECONDS, Vitals


class Member:
    def __init__(self) -> None:
        self.last_poll = time.monotonic()
        self.member = True
        self.oldest: float | None = None


@pytest.fixture
def member() -> Member:
    return Member()


@pytest.fixture
def endpoint() -> Upstream:
    return upstream(FakeEndpoint(lambda _: answer()))


@pytest.fixture
def alive(member: Member, endpoint: Upstream) -> Vitals:
    made = Vitals(member, upstreams(endpoint))
    made.started, made.database = True, None
    return made


def test_a_worker_that_moves_is_alive_and_ready(alive: Vitals) -> None:
    assert (alive.dead(), alive.unready()) == (None, None)


def test_a_poll_loop_that_does_not_move_is_death(alive: Vitals, member: Member) -> None:
    member.last_poll = time.monotonic() - STUCK_SECONDS - 1
    assert alive.dead() == "the poll loop is stuck"
    assert alive.poll_age() > STUCK_SECONDS


def test_before_the_start_there_is_no_poll_loop_to_miss(alive: Vitals, member: Member) -> None:
    alive.started = False
    member.last_poll = time.monotonic() - 1e6
    assert alive.dead() is None
    assert alive.poll_age() == 0
    assert alive.unready() == "kafka: not in the group yet"


def test_an_event_loop_that_does_not_move_is_death(alive: Vitals, monkeypatch: pytest.MonkeyPatch) -> None:
    late = time.monotonic() + STUCK_SECONDS + 1
    monkeypatch.setattr("worker.vitals.time.monotonic", lambda: late)
    assert alive.dead() == "the event loop is stuck"
    alive.beat()
    assert alive.dead() != "the event loop is stuck"


def test_each_thing_that_is_missing_is_named(alive: Vitals, member: Member, endpoint: Upstream) -> None:
    alive.database = "OperationalError 57P03"
    assert alive.unready() == "database: OperationalError 57P03"
    alive.database = None
    member.member = False
    assert alive.unready() == "kafka: not in the group yet"
    member.member = True
    for _ in range(RUN_FAULTS):
        endpoint.circuit.saw(Outcome(Kind.RUN_FAULT, Reason.AUTH, status=401), 1.0)
    assert alive.unready() == "no endpoint is usable: vllm-a:8000: run_fault, status 401"


def test_one_usable_endpoint_is_enough(member: Member, endpoint: Upstream) -> None:
    two = Vitals(member, upstreams(endpoint, upstream(FakeEndpoint(lambda _: answer()), name="b")))
    two.started, two.database = True, None
    for _ in range(RUN_FAULTS):
        endpoint.circuit.saw(Outcome(Kind.RUN_FAULT, Reason.AUTH, status=401), 1.0)
    assert two.unready() is None


@pytest.mark.parametrize(("ago", "least"), [(None, 0.0), (-100.0, 0.0), (100.0, 99.0)])
def test_the_age_of_the_oldest_message_is_never_negative(
    alive: Vitals, member: Member, ago: float | None, least: float
) -> None:
    member.oldest = None if ago is None else time.time() - ago
    assert least <= alive.oldest_age() < least + 60
