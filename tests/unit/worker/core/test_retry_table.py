"""The retry table, row by row, and what holds for any header, any history and any jitter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.statuses import Billed, Reason
from worker.core.classify import classify
from worker.core.outcome import Kind, Outcome
from worker.core.reply import Break, Broken, Reply
from worker.core.retry import AMBIGUOUS_RETRIES, RETRIES, Again, End, Spent, decide

NOW = 1_767_225_600.0
SHORT = {408, 409, 425, 429, 500, 502, *range(520, 530)}
LONG = {503, 504}
ALMOST_ONE = 1 - 2**-53


def outcome(status: int, headers: dict[str, str] | None = None, code: str | None = None) -> Outcome:
    body = json.dumps({"error": {"message": "no", "code": code}}).encode()
    return classify(Reply(status, headers or {}, body), NOW)


def broken(how: Break) -> Outcome:
    return classify(Broken(how, "ReadError"), NOW)


def waits(of: Outcome, jitter: float, others: bool = True) -> list[float]:
    """The waits of a row that fails in the same way until its end, or ten times."""
    found, spent = [], Spent()
    for _ in range(10):
        decision = decide(of, spent, jitter=jitter, others_answered=others)
        if isinstance(decision, End):
            break
        found.append(decision.seconds)
        spent = decision.spent
    return found


def end_of(of: Outcome) -> End:
    spent = Spent()
    for _ in range(10):
        decision = decide(of, spent, jitter=0.5, others_answered=True)
        if isinstance(decision, End):
            return decision
        spent = decision.spent
    raise AssertionError("asked for ever")


@pytest.mark.parametrize("status", sorted(SHORT))
def test_transient_statuses_wait_from_half_a_second_to_four_and_end_after_three_retries(status: int) -> None:
    assert waits(outcome(status), 0) == [0.5, 1, 2]
    assert waits(outcome(status), ALMOST_ONE) == pytest.approx([1, 2, 4])


@pytest.mark.parametrize("status", sorted(LONG))
def test_an_endpoint_that_is_not_there_is_given_ten_times_as_long(status: int) -> None:
    assert waits(outcome(status), 0) == [5, 10, 20]
    assert waits(outcome(status), ALMOST_ONE) == pytest.approx([10, 20, 40])


@pytest.mark.parametrize("how", [Break.NOT_SENT, Break.CONNECTION])
def test_connection_faults_wait_like_transient_statuses(how: Break) -> None:
    assert waits(broken(how), 0) == [0.5, 1, 2]


@pytest.mark.parametrize("how", [Break.TIMEOUT, Break.OVERSIZE, Break.ENCODING])
def test_what_may_have_been_billed_is_repeated_once(how: Break) -> None:
    assert waits(broken(how), 0) == [0.5]
    assert (RETRIES, AMBIGUOUS_RETRIES) == (3, 1)


def test_the_longest_waits_are_half_a_minute_and_a_minute() -> None:
    assert waits(outcome(500), ALMOST_ONE, others=False)[-1] == pytest.approx(30)
    assert waits(outcome(503), ALMOST_ONE, others=False)[-1] == pytest.approx(60)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (429, Reason.RATE_LIMITED),
        (500, Reason.SERVER_ERROR),
        (503, Reason.SERVER_ERROR),
        (408, Reason.SERVER_ERROR),
    ],
)
def test_a_row_that_always_failed_alike_ends_with_that_reason(status: int, reason: Reason) -> None:
    assert end_of(outcome(status)) == End(reason)


def test_time_outs_and_connection_faults_end_with_their_own_reasons() -> None:
    assert end_of(broken(Break.TIMEOUT)) == End(Reason.TIMEOUT)
    assert end_of(broken(Break.CONNECTION)) == End(Reason.CONNECTION)
    assert end_of(broken(Break.ENCODING)) == End(Reason.MALFORMED_RESPONSE)


def test_a_row_that_failed_in_several_ways_has_exhausted_its_attempts() -> None:
    spent = Spent()
    for status in (500, 429, 503):
        decision = decide(outcome(status), spent, jitter=0, others_answered=True)
        assert isinstance(decision, Again)
        spent = decision.spent
    assert decide(outcome(500), spent, jitter=0, others_answered=True) == End(Reason.ATTEMPTS_EXHAUSTED)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, Reason.REJECTED_REQUEST), (413, Reason.TOO_LONG), (422, Reason.REJECTED_REQUEST)],
)
def test_a_rejected_row_is_final_at_once(status: int, reason: Reason) -> None:
    assert decide(outcome(status), Spent(), jitter=0, others_answered=True) == End(reason)
    assert decide(outcome(status, {"retry-after": "5"}), Spent(), jitter=0, others_answered=True) == End(reason)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_fault_of_the_run_spends_nothing_of_a_row_however_long_it_lasts(status: int) -> None:
    spent = Spent()
    for _ in range(50):
        decision = decide(outcome(status), spent, jitter=0.5, others_answered=True, overdue=True)
        assert isinstance(decision, Again)
        spent = decision.spent
    assert (spent.retries, spent.ambiguous) == (0, 0)


@pytest.mark.parametrize("of", [outcome(500), outcome(503), outcome(429), broken(Break.NOT_SENT)])
def test_an_outage_spends_nothing_until_it_is_overdue(of: Outcome) -> None:
    assert len(waits(of, 0.5, others=False)) == 10
    assert decide(of, Spent(tries=9), jitter=0.5, others_answered=False, overdue=True) == End(Reason.EXPIRED)


HEADERS = st.one_of(
    st.floats(0, 1e6).map(lambda s: ({"retry-after": repr(s)}, s)),
    st.integers(0, 10**6).map(lambda s: ({"retry-after": str(s)}, float(s))),
    st.integers(0, 10**9).map(lambda ms: ({"retry-after-ms": str(ms)}, ms / 1000)),
)
FAILURES = st.sampled_from([429, 500, 502, 503, 504, 408, 409, 425, 524])
SPENT = st.builds(
    Spent,
    tries=st.integers(0, 2000),
    retries=st.integers(0, 3),
    ambiguous=st.integers(0, 1),
    reasons=st.frozensets(st.sampled_from(Reason), max_size=3),
)
JITTER = st.floats(0, 1, exclude_max=True)


@given(FAILURES, HEADERS, SPENT, JITTER, st.booleans())
def test_a_wait_that_was_asked_for_is_never_undercut_and_spends_nothing(
    status: int, header: tuple[dict[str, str], float], spent: Spent, jitter: float, others: bool
) -> None:
    headers, asked = header
    decision = decide(outcome(status, headers), spent, jitter=jitter, others_answered=others)
    assert isinstance(decision, Again)
    assert decision.seconds >= asked
    assert decision.pause
    assert (decision.spent.retries, decision.spent.ambiguous) == (spent.retries, spent.ambiguous)


@given(st.sampled_from([*SHORT, *LONG]), SPENT, JITTER, st.booleans())
def test_our_own_back_off_stays_in_its_bounds_for_any_jitter(
    status: int, spent: Spent, jitter: float, others: bool
) -> None:
    decision = decide(outcome(status), spent, jitter=jitter, others_answered=others)
    first, longest = (10.0, 60.0) if status in LONG else (1.0, 30.0)
    if isinstance(decision, Again):
        whole = min(first * 2 ** min(spent.tries, 60), longest)
        assert whole / 2 <= decision.seconds <= whole
        assert not decision.pause


@given(st.data(), JITTER)
def test_whatever_happens_a_row_ends_after_so_many_calls_of_its_own(data: st.DataObject, jitter: float) -> None:
    outcomes = st.sampled_from(
        [outcome(500), outcome(503), broken(Break.TIMEOUT), broken(Break.CONNECTION), outcome(429)]
    )
    spent, calls = Spent(), 0
    while True:
        calls += 1
        assert calls <= 1 + RETRIES
        decision = decide(data.draw(outcomes), spent, jitter=jitter, others_answered=True)
        if isinstance(decision, End):
            assert decision.reason is not None
            return
        spent = decision.spent


def test_those_who_were_told_the_same_instant_are_spread_behind_it() -> None:
    of = outcome(429, {"retry-after": "10"})
    seconds = [waits(of, nth / 30)[0] for nth in range(30)]
    assert min(seconds) >= 10
    assert max(seconds) - min(seconds) >= 2
    assert len(set(seconds)) == 30


@pytest.mark.parametrize("headers", [{"retry-after": "0"}, {"retry-after": "Thu, 01 Jan 2015 00:00:00 GMT"}])
def test_nothing_or_a_past_date_means_now(headers: dict[str, str]) -> None:
    assert waits(outcome(429, headers), 0.5)[0] == 0


def test_a_server_that_says_now_for_ever_is_not_asked_without_pause_for_ever() -> None:
    assert sum(waits(outcome(429, {"retry-after": "0"}), 0)) > 5


@pytest.mark.parametrize("text", ["-1", "", "soon", "nan", "inf", "-0.5", "1 2", "0x10"])
def test_an_unreadable_header_means_our_own_back_off(text: str) -> None:
    assert waits(outcome(429, {"retry-after": text}), 0) == [0.5, 1, 2]


def test_an_answer_is_final() -> None:
    good: Any = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
    answered = classify(Reply(200, {}, json.dumps(good).encode()), NOW)
    assert decide(answered, Spent(), jitter=0, others_answered=True) == End(None)
    assert decide(answered, Spent(), jitter=0, others_answered=True, overdue=True) == End(None)


def test_a_time_out_spends_even_in_an_outage_since_it_may_be_billed() -> None:
    first = decide(broken(Break.TIMEOUT), Spent(), jitter=0, others_answered=False)
    assert isinstance(first, Again)
    assert decide(broken(Break.TIMEOUT), first.spent, jitter=0, others_answered=False) == End(Reason.TIMEOUT)
    assert broken(Break.TIMEOUT).billed is Billed.MAYBE
    assert broken(Break.TIMEOUT).kind is Kind.TIMEOUT
