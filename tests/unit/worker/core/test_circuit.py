"""When an endpoint is not called any more, and how it comes back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.statuses import Reason
from worker.core.circuit import DOUBT_SECONDS, OUTAGE_FAILURES, RUN_FAULTS, Circuit, News, Permit
from worker.core.outcome import OUTAGE_KINDS, Kind, Outcome

ANSWERED = Outcome(Kind.ANSWERED)
FAULT = Outcome(Kind.RUN_FAULT, Reason.AUTH, status=401)
REFUSED = Outcome(Kind.CONNECTION, Reason.CONNECTION)
TROUBLE = Outcome(Kind.TROUBLE, Reason.SERVER_ERROR, status=500)
LIMITED = Outcome(Kind.RATE_LIMITED, Reason.RATE_LIMITED, status=429, retry_after=5.0)


def opened(at: float = 0.0) -> Circuit:
    circuit = Circuit()
    for _ in range(RUN_FAULTS):
        circuit.saw(FAULT, at)
    assert circuit.opened_for is FAULT
    return circuit


def probe_times(circuit: Circuit, until: float, outcome: Outcome = FAULT) -> list[float]:
    """The instants at which probes leave, each of which fails at once."""
    now, found = 0.0, []
    while now < until:
        if circuit.permit(now) is Permit.PROBE:
            found.append(now)
            circuit.saw(outcome, now, probed=True)
        now += 1.0
    return found


def test_a_healthy_endpoint_is_called() -> None:
    assert Circuit().permit(0.0) is Permit.GO


def test_the_fifth_fault_of_the_run_opens_it() -> None:
    circuit = Circuit()
    for nth in range(RUN_FAULTS - 1):
        circuit.saw(FAULT, nth * 3.0)
        assert circuit.opened_for is None
    circuit.saw(FAULT, 12.0)
    assert (circuit.permit(12.0), circuit.opened_at) == (Permit.WAIT, 12.0)
    assert list(circuit.news) == [News.FAULT] * RUN_FAULTS + [News.OPENED]


def test_after_a_fault_of_the_run_calls_leave_one_by_one_until_one_that_left_later_is_answered() -> None:
    circuit = Circuit()
    circuit.saw(FAULT, 10.0)
    assert circuit.permit(10.0) is Permit.WAIT
    assert circuit.wakes_at(10.0) == 10.0 + DOUBT_SECONDS
    circuit.saw(ANSWERED, 10.5, started=9.0)
    assert circuit.permit(10.5) is Permit.WAIT
    assert [circuit.permit(12.0) for _ in range(3)] == [Permit.GO, Permit.WAIT, Permit.WAIT]
    circuit.saw(ANSWERED, 12.5, started=12.0)
    assert [circuit.permit(12.5) for _ in range(3)] == [Permit.GO] * 3


def test_the_fleet_that_has_counted_a_fault_lets_one_more_call_leave() -> None:
    circuit = Circuit()
    circuit.saw(FAULT, 10.0)
    circuit.trust()
    assert [circuit.permit(10.0) for _ in range(2)] == [Permit.GO, Permit.WAIT]
    circuit.saw(FAULT, 10.1)
    assert circuit.permit(10.1) is Permit.WAIT


def test_what_the_fleet_says_is_followed_and_its_probes_are_given_out() -> None:
    circuit = Circuit()
    circuit.share(True, 0.0)
    assert not circuit.follow(FAULT, 1.0)
    assert circuit.permit(500.0) is Permit.WAIT
    circuit.may_probe(500.0)
    assert [circuit.permit(500.0) for _ in range(2)] == [Permit.PROBE, Permit.WAIT]
    circuit.saw(FAULT, 501.0, probed=True)
    assert circuit.permit(900.0) is Permit.WAIT
    assert circuit.follow(None, 901.0)
    assert circuit.permit(901.0) is Permit.GO
    assert not circuit.follow(None, 902.0)


def test_an_outage_is_a_workers_own_whatever_the_fleet_says() -> None:
    circuit = Circuit()
    circuit.share(True, 0.0)
    for now in (100.0, 100.0, 100.0, 100.0, 100.0, 106.0):
        circuit.saw(REFUSED, now)
    assert not circuit.follow(None, 107.0)
    assert circuit.opened_for is REFUSED
    assert circuit.permit(121.0) is Permit.PROBE


def test_while_the_fleet_cannot_be_asked_each_worker_has_its_own_probes() -> None:
    circuit = Circuit()
    circuit.share(True, 0.0)
    circuit.follow(FAULT, 1.0)
    circuit.share(False, 10.0)
    assert circuit.permit(24.9) is Permit.WAIT
    assert circuit.permit(25.0) is Permit.PROBE


def test_faults_that_are_minutes_apart_do_not_open_it() -> None:
    circuit = Circuit()
    for nth in range(30):
        circuit.saw(FAULT, nth * 16.0)
    assert circuit.permit(480.0) is Permit.GO


def test_probes_come_every_fifteen_seconds_and_slow_down_to_a_minute() -> None:
    gaps = [after - before for before, after in pairwise([0.0, *probe_times(opened(), 400)])]
    assert gaps[:2] == [15, 15]
    assert gaps == sorted(gaps)
    assert max(gaps) == 60
    assert gaps[-2:] == [60, 60]


def test_one_probe_at_a_time() -> None:
    circuit = opened()
    assert [circuit.permit(15.0) for _ in range(3)] == [Permit.PROBE, Permit.WAIT, Permit.WAIT]
    circuit.abandon_probe()
    assert circuit.permit(15.0) is Permit.PROBE


def test_an_answered_probe_closes_it_and_the_next_opening_begins_anew() -> None:
    circuit = opened()
    probe_times(circuit, 200)
    assert circuit.permit(500.0) is Permit.PROBE
    circuit.saw(ANSWERED, 501.0, probed=True)
    assert circuit.permit(501.0) is Permit.GO
    for _ in range(RUN_FAULTS):
        circuit.saw(FAULT, 600.0)
    assert circuit.permit(614.0) is Permit.WAIT
    assert circuit.permit(615.0) is Permit.PROBE


def test_a_call_that_began_before_says_nothing_of_a_key_but_ends_an_outage() -> None:
    circuit = opened()
    circuit.saw(ANSWERED, 1.0, started=-1.0)
    assert circuit.permit(1.0) is Permit.WAIT
    circuit.saw(ANSWERED, 2.0, started=1.0)
    assert circuit.permit(2.0) is Permit.GO
    for now in (100.0, 100.0, 100.0, 100.0, 100.0, 106.0):
        circuit.saw(REFUSED, now)
    assert circuit.opened_for is REFUSED
    circuit.saw(ANSWERED, 107.0, started=99.0)
    assert circuit.permit(107.0) is Permit.GO
    assert circuit.news[-1] is News.CLOSED


@pytest.mark.parametrize("outcome", [REFUSED, TROUBLE])
def test_an_outage_opens_it_when_nobody_has_been_answered_for_a_while(outcome: Outcome) -> None:
    circuit = Circuit()
    for _ in range(OUTAGE_FAILURES):
        circuit.saw(outcome, 100.0)
    assert circuit.permit(100.0) is Permit.GO
    circuit.saw(outcome, 105.0)
    assert circuit.permit(105.0) is Permit.WAIT


def test_few_failures_over_a_long_time_are_no_outage_while_others_are_answered() -> None:
    circuit = Circuit()
    for nth in range(100):
        circuit.saw(TROUBLE, nth * 2.0)
        circuit.saw(ANSWERED, nth * 2.0 + 1)
    assert circuit.permit(200.0) is Permit.GO


def test_a_brown_out_of_one_half_does_not_open_it() -> None:
    circuit = Circuit()
    for nth in range(1000):
        circuit.saw(TROUBLE if nth % 2 else ANSWERED, nth * 0.1)
        assert circuit.permit(nth * 0.1) is Permit.GO


def test_a_server_that_says_when_to_come_back_is_no_outage() -> None:
    circuit = Circuit()
    for nth in range(50):
        circuit.saw(LIMITED, nth * 5.0)
        circuit.pause(nth * 5.0 + 5.0)
    assert circuit.opened_for is None


def test_a_pause_holds_back_everybody_and_the_longest_counts() -> None:
    circuit = Circuit()
    circuit.pause(100.0)
    circuit.pause(50.0)
    assert (circuit.permit(99.9), circuit.permit(100.0)) == (Permit.WAIT, Permit.GO)
    assert circuit.wakes_at(0.0) == 100.0


def test_a_pause_holds_back_the_probe_too() -> None:
    circuit = opened()
    circuit.pause(100.0)
    assert circuit.permit(50.0) is Permit.WAIT
    assert circuit.permit(100.0) is Permit.PROBE


def test_who_was_answered_since() -> None:
    circuit = Circuit()
    assert not circuit.answered_since(0.0)
    circuit.saw(ANSWERED, 10.0)
    assert circuit.answered_since(10.0)
    assert not circuit.answered_since(10.1)
    circuit.saw(REFUSED, 20.0)
    assert not circuit.answered_since(10.1)


OUTCOMES = st.sampled_from([Outcome(kind, Reason.SERVER_ERROR) for kind in Kind if kind is not Kind.ABANDONED])


@given(st.lists(st.tuples(OUTCOMES, st.floats(0, 30)), max_size=80))
def test_whatever_comes_an_open_circuit_is_probed_within_a_minute_and_an_answer_closes_it(
    steps: list[tuple[Outcome, float]],
) -> None:
    circuit, now = Circuit(), 0.0
    for outcome, gap in steps:
        now += gap
        if circuit.permit(now) is not Permit.WAIT:
            circuit.saw(outcome, now, probed=circuit.opened_for is not None)
        if outcome.kind not in OUTAGE_KINDS | {Kind.RUN_FAULT} and circuit.last_answer == now:
            assert circuit.opened_for is None
        if circuit.opened_for:
            assert now < circuit.wakes_at(now) + 1e-9 <= now + 60.0 + 1e-9
    assert circuit.permit(now + 61.0) is not Permit.WAIT
