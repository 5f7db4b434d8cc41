"""Which endpoint a call goes to, when it may leave, and what is said of those that are not usable."""

from __future__ import annotations

import asyncio

import pytest

from schemas.statuses import Reason, Unit
from tests.fakes.endpoint import FakeEndpoint, answer
from tests.fakes.fleet import upstream, upstreams
from tests.fakes.virtual_time import now, settle, virtual
from worker.core.circuit import RUN_FAULTS
from worker.core.limiter import Signal
from worker.core.outcome import Answer, Kind, Outcome
from worker.core.quota import Lease
from worker.core.tokens import Size
from worker.meter import Meter
from worker.upstreams import Admission, Upstreams, signal_of

SERVED = FakeEndpoint(lambda _request: answer())
ANSWERED = Outcome(Kind.ANSWERED)
FAULT = Outcome(Kind.RUN_FAULT, Reason.AUTH, status=401, code="invalid_api_key")


async def admit(some: Upstreams, count: int, alias: str = "small") -> list[Admission]:
    return [await some.admit(alias) for _ in range(count)]


@virtual
async def test_the_limit_of_the_worker_and_of_each_endpoint_hold() -> None:
    a, b = upstream(SERVED, name="a", most=2), upstream(SERVED, name="b", most=5)
    some = upstreams(a, b, limit=6)
    await admit(some, 6)
    assert (a.inside, b.inside, some.inside, some.places) == (2, 4, 6, 6)
    seventh = asyncio.create_task(some.admit("small"))
    await settle()
    assert not seventh.done()


@virtual
async def test_a_place_from_which_no_call_has_left_gives_back_what_it_took_of_the_rates() -> None:
    limited = upstream(SERVED, meter=Meter.of(60, 6000))
    limited.meter.shares[Unit.REQUESTS].add(Lease(now() - 1, 1.0, 1.0))
    limited.meter.shares[Unit.TOKENS].add(Lease(now() - 1, 0.001, 400.0))
    some = upstreams(limited)
    for _ in range(3):
        admission = await some.admit("small", Size(40, 300))
        some.turn_back(admission)
    assert (limited.inside, some.inside) == (0, 0)
    some.leave(await some.admit("small", Size(40, 300)))
    assert limited.meter.ready_at(now(), Size(40, 300)) == float("inf")


def test_an_endpoint_without_limits_learns_what_its_calls_take_too() -> None:
    meter = Meter()
    told = Outcome(Kind.ANSWERED, answer=Answer("yes", prompt_tokens=20, completion_tokens=30))
    meter.settle(told, Size(40), {}, started=0.0, now=1.0)
    assert meter.estimate.tokens(Size(400)) == 1 + 200 + 36


@virtual
async def test_the_least_loaded_by_weight_is_called() -> None:
    light, heavy = upstream(SERVED, name="light", weight=1), upstream(SERVED, name="heavy", weight=3)
    some = upstreams(light, heavy)
    await admit(some, 20)
    assert (light.inside, heavy.inside) == (5, 15)


@virtual
async def test_a_weight_of_nothing_means_not_called_and_costs_no_time() -> None:
    off, on = upstream(SERVED, name="off", weight=0), upstream(SERVED, name="on", most=1)
    some = upstreams(off, on)
    (held,) = await admit(some, 1)
    waiting = asyncio.create_task(some.admit("small"))
    await settle()
    some.leave(held)
    assert (await waiting).upstream is on
    assert off.inside == 0


@virtual
async def test_one_dead_endpoint_of_two_takes_no_calls_but_its_probes() -> None:
    dead, good = upstream(SERVED, name="dead", most=4), upstream(SERVED, name="good", most=4)
    some = upstreams(dead, good)
    for _ in range(RUN_FAULTS):
        dead.circuit.saw(FAULT, now())
    assert {admission.upstream for admission in await admit(some, 4)} == {good}
    assert some.usable
    assert some.faults == {"dead": "run_fault, status 401, invalid_api_key"}


@virtual
async def test_everybody_waits_for_a_pause_and_not_a_moment_less() -> None:
    one = upstream(SERVED, most=4)
    some = upstreams(one)
    (held,) = await admit(some, 1)
    held.saw(Outcome(Kind.RATE_LIMITED, Reason.RATE_LIMITED, status=429, retry_after=3600.0))
    some.leave(held)
    began = now()
    await asyncio.gather(*(some.admit("small") for _ in range(2)))
    assert 3600 <= now() - began < 3600.1


@virtual
async def test_of_many_waiting_for_an_open_circuit_one_probes_and_the_rest_follow_its_answer() -> None:
    one = upstream(SERVED, most=8)
    some = upstreams(one)
    for _ in range(RUN_FAULTS):
        one.circuit.saw(FAULT, now())
    began = now()
    waiting = [asyncio.create_task(some.admit("small")) for _ in range(5)]
    await asyncio.sleep(15.5)
    (probe,) = [task.result() for task in waiting if task.done()]
    assert probe.probe
    assert not some.usable
    probe.saw(ANSWERED)
    some.leave(probe)
    await asyncio.gather(*waiting)
    assert now() - began < 16
    assert some.usable


@virtual
async def test_a_probe_that_was_cancelled_is_given_to_another() -> None:
    one = upstream(SERVED, most=8)
    some = upstreams(one)
    for _ in range(RUN_FAULTS):
        one.circuit.saw(FAULT, now())
    await asyncio.sleep(15)
    (probe,) = await admit(some, 1)
    assert probe.probe
    some.leave(probe)
    (another,) = await admit(some, 1)
    assert another.probe


@virtual
async def test_a_circuit_that_closes_lets_the_waiting_in_at_once() -> None:
    one = upstream(SERVED, most=8)
    some = upstreams(one)
    (running,) = await admit(some, 1)
    for _ in range(RUN_FAULTS):
        one.circuit.saw(FAULT, now())
    waiting = asyncio.create_task(some.admit("small"))
    await asyncio.sleep(2)
    running.saw(ANSWERED)
    some.leave(running)
    before = now()
    await waiting
    assert now() == before


@virtual
async def test_an_alias_that_nobody_serves_is_a_fault_of_the_run_and_holds_back_nobody_else() -> None:
    some = upstreams(upstream(SERVED))
    lost = asyncio.create_task(some.admit("tiny"))
    await admit(some, 1)
    await asyncio.sleep(3600)
    assert not lost.done()
    assert some.faults == {"model tiny": "is not in the models file"}


def test_names_of_models() -> None:
    listed = upstreams(upstream(SERVED), upstream(SERVED, "large"))
    assert listed.resolve(None) == ("small", None)
    assert listed.resolve("large") == ("large", None)
    assert listed.resolve("gpt-x") == ("gpt-x", None)
    passing = upstreams(upstream(SERVED), passes_unknown=True)
    assert passing.resolve("gpt-x") == ("small", "gpt-x")
    assert passing.resolve("small") == ("small", None)


@pytest.mark.parametrize("kind", list(Kind))
def test_what_each_outcome_says_about_the_limit(kind: Kind) -> None:
    expected = {
        **dict.fromkeys((Kind.RATE_LIMITED, Kind.UNAVAILABLE, Kind.TIMEOUT), Signal.OVERLOADED),
        **dict.fromkeys((Kind.ANSWERED, Kind.UNFIT), Signal.ANSWERED),
    }
    assert signal_of(Outcome(kind)) is expected.get(kind, Signal.IGNORED)


@virtual
async def test_who_is_cancelled_in_the_moment_of_being_served_gives_back_what_was_taken_of_the_rates() -> None:
    limited = upstream(SERVED, meter=Meter.of(60, None))
    some = upstreams(limited)
    waiting = asyncio.create_task(some.admit("small"))
    await settle()
    limited.meter.shares[Unit.REQUESTS].add(Lease(now() - 1, 1.0, 1.0))
    some.look("small")
    assert limited.inside == 1
    waiting.cancel()
    await settle()
    assert limited.inside == 0
    assert limited.meter.ready_at(now(), Size(0)) == now()


@virtual
async def test_a_place_from_which_no_call_has_left_gives_back_its_slot_of_a_learned_pace() -> None:
    paced = upstream(SERVED)
    some = upstreams(paced)
    for second in range(20):
        paced.meter.pace.answered(now() + second)
    paced.meter.pace.refused(now() + 19, now() + 20, 1.0)
    await asyncio.sleep(60)
    began = now()
    for _ in range(5):
        some.turn_back(await some.admit("small"))
    some.leave(await some.admit("small"))
    assert now() == began


@virtual
async def test_a_place_in_doubt_from_which_no_call_has_left_is_the_next_ones_at_once() -> None:
    one = upstream(SERVED)
    some = upstreams(one)
    one.circuit.saw(FAULT, now())
    one.circuit.trust()
    began = now()
    some.turn_back(await some.admit("small"))
    await some.admit("small")
    assert now() == began
    third = asyncio.create_task(some.admit("small"))
    await settle()
    assert not third.done(), "one at a time"
