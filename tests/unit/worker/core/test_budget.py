"""A worker's part of a budget: whatever calls cost, grants stay below the budget, and spending below the grants."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.models import Price
from schemas.statuses import Billed
from tests.fakes.bank import Budget, draw
from worker.core.amounts import NOTHING, Amount, at_most
from worker.core.budget import IDLE_SECONDS, REPORT_SECONDS, SURE_SECONDS, Limits, Purse, charge
from worker.core.outcome import Answer, Kind, Outcome
from worker.core.tokens import Estimate, Size

PRICE = Price(input_per_million=Decimal(1), output_per_million=Decimal(10))
BOTH = Limits(usd=True, tokens=True)
KINDS = (0, 1)


def amount(usd: str | int, tokens: int = 0) -> Amount:
    return Amount(Decimal(usd), tokens)


def filled(usd: str | int, tokens: int, now: float = 0.0, limits: Limits = BOTH) -> Purse:
    """A purse that was granted so much."""
    purse = Purse(limits)
    purse.drawn(amount(usd, tokens), purse.draw([amount(usd, tokens)], now))
    return purse


def ended(billed: Billed, prompt: int | None = None, completion: int | None = None) -> Outcome:
    answer = Answer("yes", prompt_tokens=prompt, completion_tokens=completion) if billed is Billed.YES else None
    return Outcome(Kind.ANSWERED, billed=billed, answer=answer)


def test_a_call_may_take_its_prompt_and_all_that_its_answer_may_have() -> None:
    estimate = Estimate(bytes_a_token=4.0)
    assert at_most(PRICE, estimate, Size(400, 500)) == Amount(Decimal("0.005101"), 601)
    assert at_most(None, estimate, Size(400, 500)) == Amount(Decimal(0), 601)
    assert at_most(PRICE, Estimate(completion=100.0), Size(0)).tokens == 1 + 120


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (ended(Billed.YES, 100, 50), Amount(Decimal("0.0006"), 150)),
        (ended(Billed.YES, 100, None), Amount(Decimal(9), 900)),
        (ended(Billed.YES, None, 50), Amount(Decimal(9), 900)),
        (ended(Billed.MAYBE), Amount(Decimal(9), 900)),
        (ended(Billed.NO), NOTHING),
    ],
)
def test_an_ended_call_counts_with_what_it_says_else_with_all_it_may_have_taken(
    outcome: Outcome, counts: Amount
) -> None:
    assert charge(outcome, PRICE, amount(9, 900)) == counts


def test_an_answer_whose_price_has_gone_counts_with_its_reserve() -> None:
    assert charge(ended(Billed.YES, 100, 50), None, amount(9, 900)) == amount(9, 150)


def test_calls_hold_their_reserve_and_give_back_what_they_did_not_take() -> None:
    purse = filled(1, 100)
    first = purse.take(amount("0.6", 10), 1.0)
    assert first == amount("0.6", 10)
    assert purse.take(amount("0.5", 10), 1.0) is None
    assert purse.take(amount("0.1", 91), 1.0) is None
    purse.settle(first, amount("0.2", 5))
    assert (purse.free, purse.spent, purse.reserved) == (amount("0.8", 95), amount("0.2", 5), NOTHING)
    assert purse.take(amount("0.8", 95), 1.0) is not None


def test_what_has_no_budget_is_not_counted() -> None:
    purse = filled(0, 100, limits=Limits(usd=False, tokens=True))
    held = purse.take(amount(1000, 40), 0.0)
    assert held == amount(0, 40)
    purse.settle(held, amount(1000, 30))
    assert (purse.spent, purse.free) == (amount(0, 30), amount(0, 70))


def test_an_excess_is_owed_and_the_next_grant_makes_up_for_it() -> None:
    purse = filled(1, 100)
    held = purse.take(amount(1, 100), 0.0)
    assert held is not None
    purse.settle(held, amount(3, 100))
    assert purse.free == amount(-2, 0)
    wanted = purse.draw([amount(1, 100)], 1.0)
    assert (wanted.keeps, wanted.spent, wanted.stuck) == (amount(1, 100), amount(3, 100), True)
    purse.drawn(amount(4, 200), wanted)
    assert purse.free == amount(1, 100)


def test_a_grant_is_not_spent_when_its_store_has_not_been_heard_of() -> None:
    purse = filled(1, 100, now=10.0)
    assert purse.has(amount(1, 100), 10.0 + SURE_SECONDS)
    assert not purse.has(amount(1, 100), 10.1 + SURE_SECONDS)
    assert purse.take(amount(1, 100), 10.1 + SURE_SECONDS) is None
    purse.drawn(amount(1, 100), purse.draw([], 60.0))
    assert purse.take(amount(1, 100), 61.0) is not None


def test_what_is_not_enough_for_any_call_that_waits_is_given_back() -> None:
    purse = filled(1, 100)
    held = purse.take(amount("0.7", 70), 0.0)
    assert held is not None
    wanted = purse.draw([amount("0.5", 20), amount("0.4", 10)], 0.5)
    assert (wanted.keeps, wanted.smallest, wanted.largest) == (
        amount("0.7", 70),
        amount("0.4", 10),
        amount("0.7", 70),
    )
    assert not wanted.stuck, "a call runs that may give some back"
    purse.settle(held, held)
    assert purse.draw([amount("0.4", 10)], 0.6).stuck


def test_a_call_that_is_enough_for_keeps_its_grant() -> None:
    purse = filled(1, 100)
    wanted = purse.draw([amount(2, 20), amount("0.4", 10)], 0.5)
    assert (wanted.keeps, wanted.stuck) == (amount(1, 100), False)


def test_an_idle_purse_gives_back_what_no_call_holds_and_then_is_silent() -> None:
    purse = filled(1, 100)
    held = purse.take(amount("0.25", 10), 5.0)
    assert held is not None
    assert not purse.due(waiting=False, now=5.0 + IDLE_SECONDS / 2)
    now = 5.1 + IDLE_SECONDS
    assert purse.due(waiting=False, now=now)
    back = purse.draw([], now)
    assert (back.keeps, back.wish) == (amount("0.25", 10), NOTHING)
    purse.drawn(back.keeps, back)
    assert not purse.due(waiting=False, now=now + REPORT_SECONDS)
    purse.settle(held, held)
    assert purse.due(waiting=False, now=now + REPORT_SECONDS)
    purse.drawn(held, purse.draw([], now + REPORT_SECONDS))
    assert not purse.due(waiting=False, now=now + 3600)


def test_a_closed_purse_wants_nothing() -> None:
    purse = filled(1, 100)
    purse.take(amount("0.25", 10), 5.0)
    purse.close()
    last = purse.draw([], 5.1)
    assert (last.keeps, last.wish, last.stuck) == (amount("0.25", 10), NOTHING, False)


def test_it_wishes_for_what_its_calls_take_in_a_few_seconds() -> None:
    purse = filled(10, 1000, limits=Limits(usd=True, tokens=False))
    for _ in range(8):
        purse.take(amount(1), 0.5)
    assert purse.low
    assert purse.draw([], 1.0).wish == amount(40)


calls = st.integers(0, 300)
numbers = st.integers(0, 11)


class Fleet(RuleBasedStateMachine):
    """Workers that draw, call, end their calls, fall silent and die, on one budget that may be raised."""

    @initialize(
        usd=st.one_of(st.none(), st.integers(1, 1000)),
        tokens=st.integers(1, 1000),
        workers=st.integers(1, 4),
    )
    def begin(self, usd: int | None, tokens: int, workers: int) -> None:
        self.budget = Budget((None if usd is None else Decimal(usd), Decimal(tokens)))
        self.most = [Decimal(limit or 0) for limit in self.budget.limits]
        limits = Limits(usd=usd is not None, tokens=True)
        self.purses = [Purse(limits) for _ in range(workers)]
        self.held: list[tuple[Purse, Amount]] = []
        self.excess = {id(purse): NOTHING for purse in self.purses}
        self.now = 0.0

    def purse(self, nth: int) -> Purse:
        return self.purses[nth % len(self.purses)]

    def draw(self, purse: Purse, waiting: list[Amount], lost: bool) -> None:
        asked = purse.draw(waiting, self.now)
        names = ("keeps", "spent", "reserved", "smallest", "largest", "wish")
        pairs: dict[str, Any] = {
            name: [getattr(asked, name).usd, Decimal(getattr(asked, name).tokens)] for name in names
        }
        name = f"w-{self.purses.index(purse)}"
        said = draw(self.budget, self.now, worker=name, workers=len(self.purses), stuck=asked.stuck, **pairs)
        ((word, usd, tokens),) = said
        if word == "used_up":
            self.check_used_up(name, asked.smallest)
        if not lost:
            purse.drawn(Amount(usd, int(tokens)), asked)

    def check_used_up(self, name: str, smallest: Amount) -> None:
        wanted = (smallest.usd, Decimal(smallest.tokens))
        limits = enumerate(self.budget.limits)
        assert any(limit is not None and limit - self.budget.granted(kind) < wanted[kind] for kind, limit in limits)
        others = (one for other, one in self.budget.holdings.items() if other != name)
        assert not any(one.holds and one.heard > self.now - 150 for one in others)

    @rule(nth=numbers, usd=calls, tokens=calls, lost=st.booleans())
    def wants(self, nth: int, usd: int, tokens: int, lost: bool) -> None:
        self.draw(self.purse(nth), [amount(usd, tokens)], lost)

    @rule(nth=numbers, lost=st.booleans())
    def tells(self, nth: int, lost: bool) -> None:
        self.draw(self.purse(nth), [], lost)

    @rule(nth=numbers, usd=calls, tokens=calls)
    def begins_a_call(self, nth: int, usd: int, tokens: int) -> None:
        purse = self.purse(nth)
        if (held := purse.take(amount(usd, tokens), self.now)) is not None:
            self.held.append((purse, held))

    @precondition(lambda self: self.held)
    @rule(nth=numbers, share=st.sampled_from(["0", "0.5", "1", "1.5"]))
    def ends_a_call(self, nth: int, share: str) -> None:
        purse, held = self.held.pop(nth % len(self.held))
        actual = Amount(held.usd * Decimal(share), int(held.tokens * Decimal(share)))
        purse.settle(held, actual)
        self.excess[id(purse)] += (actual - held).or_more(NOTHING)

    @rule(seconds=st.sampled_from([0.1, 3.0, 30.0, 200.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(more=st.integers(1, 500))
    def is_raised(self, more: int) -> None:
        usd, tokens = self.budget.limits
        self.budget.limits = (None if usd is None else usd + more, None if tokens is None else tokens + more)
        self.budget.state = "running"

    @invariant()
    def grants_stay_below_the_budget(self) -> None:
        for kind, limit in enumerate(self.budget.limits):
            if limit is not None:
                assert self.budget.granted(kind) <= limit

    @invariant()
    def workers_hold_no_more_than_the_store_says_they_do(self) -> None:
        for nth, purse in enumerate(self.purses):
            kept = self.budget.holdings.get(f"w-{nth}")
            there = Amount(kept.granted[0], int(kept.granted[1])) if kept else NOTHING
            assert there.covers(purse.granted)

    @invariant()
    def spending_stays_below_the_grants_but_for_calls_that_exceeded_their_reserve(self) -> None:
        for purse in self.purses:
            assert (purse.granted + self.excess[id(purse)]).covers(purse.spent + purse.reserved)
            assert purse.running == sum(1 for one, _ in self.held if one is purse)


Fleet.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestFleet = Fleet.TestCase


@given(st.lists(st.tuples(calls, calls), max_size=20), calls, calls)
def test_when_all_calls_have_ended_nothing_is_reserved(taken: list[tuple[int, int]], usd: int, tokens: int) -> None:
    purse = filled(usd * 20, tokens * 20)
    held = [one for each in taken if (one := purse.take(amount(*each), 0.0)) is not None]
    assert sum(held, NOTHING) == purse.reserved
    for one in held:
        purse.settle(one, one)
    assert (purse.reserved, purse.running, purse.spent) == (NOTHING, 0, sum(held, NOTHING))
