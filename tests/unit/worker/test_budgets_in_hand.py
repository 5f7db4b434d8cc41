"""Whole workers on one budget in virtual time: spent to the cap and not beyond, paused, resumed, nothing failed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest

from schemas.models import Price
from schemas.statuses import Billed, JobState
from tests.fakes.bank import Bank
from tests.fakes.endpoint import answer, completion, error, reply, text_of
from tests.fakes.fleet import FakeWorker, upstream
from tests.fakes.samples import TOPIC
from tests.fakes.source import FakeSource
from tests.fakes.store import FakeStore
from tests.fakes.virtual_time import now, settle, virtual
from tests.unit.worker.test_main_path import Mill
from worker import fleet_sql
from worker.core.budget import SURE_SECONDS
from worker.core.orders import Orders, RunState, TopicState
from worker.core.reply import Break, Broken, Reply
from worker.errors import StoreUnavailableError
from worker.ports import Request
from worker.purses import Purses

OTHER = "headrace.prompts.tickets"
PRICE = Price(input_per_million=Decimal(1000), output_per_million=Decimal(10_000))
# What the endpoint says of each answer: 7 tokens of prompt and 2 of completion.
COST = Decimal("0.027")
RUN = {"job": "reviews", "run": "run-1"}


class Office(Mill):
    """A mill whose workers draw from one bank, and obey within two seconds when it pauses a run."""

    def __init__(self, handler: Callable[[Request], Any] = lambda r: answer(text_of(r)), **fields: Any) -> None:
        super().__init__(handler, **{"partitions": 8, "latency": 0.2, **fields})
        self.bank = Bank()
        self.obeying = asyncio.create_task(self._obey())

    def hire(self, price: Price | None = PRICE, most: int = 16) -> FakeWorker:
        """A new worker at the endpoint, for this price."""
        name = f"w-{len(self.workers)}"
        purses = Purses(self.bank.ask, name, lambda: len(self.workers))
        served = [upstream(self.endpoint, most=most, price=price)]
        one = FakeWorker(FakeSource(self.log), FakeStore(self.tables, name), served, most=most, purses=purses)
        self.log.join(one.source)
        self.workers.append(one)
        one.start()
        return one

    def fill(self, rows: int, start: int = 0, **fields: Any) -> None:
        """Publish rows of a run; their answers may have 5 tokens."""
        for nth in range(start, start + rows):
            self.publish(f"r-{nth}", partition=nth % 8, **{**RUN, "params": {"max_tokens": 5}, **fields})

    @property
    def paused(self) -> bool:
        return self.bank.runs["reviews", "run-1"].state == "paused"

    @property
    def spent(self) -> Decimal:
        """What the calls have cost, whether anybody has seen their answers or not."""
        return COST * len(self.endpoint.asked)

    @property
    def statuses(self) -> Counter[tuple[str, str | None]]:
        return Counter((row["status"], row["reason"]) for row in self.tables.results.values())

    def answered(self, job: str) -> int:
        """Rows of a job that have their answer."""
        return sum((row["job"], row["status"]) == (job, "succeeded") for row in self.tables.results.values())

    async def rest(self) -> None:
        """Let the order reach everybody, and what runs end."""
        await asyncio.sleep(10)
        assert all(one.upstreams.inside == 0 for one in self.workers)

    async def _obey(self) -> None:
        before: list[RunState] = []
        while True:
            await asyncio.sleep(2)
            states = [
                RunState(job, run, JobState.PAUSED)
                for (job, run), budget in self.bank.runs.items()
                if budget.state == "paused"
            ]
            if states != before:
                before = states
                parked = [TopicState(TOPIC, paused=bool(states))]
                for one in self.workers:
                    one.foreman.obey(Orders(states, parked))


@virtual
async def test_a_fleet_spends_its_budget_to_the_cap_pauses_and_ends_no_row_and_goes_on_with_more() -> None:
    office = Office()
    office.bank.open(usd="27")
    office.fill(1600)
    for _ in range(8):
        office.hire()
    await office.until(lambda: office.paused)
    await office.rest()
    assert Decimal("0.95") * 27 <= office.spent <= 27
    assert set(office.statuses) <= {("succeeded", None), ("claimed", None)}
    assert office.statuses["succeeded", None] == len(office.endpoint.asked)
    assert sum(one.purses.waiting for one in office.workers if one.purses) == 0
    began = now()
    office.bank.open(usd="100")
    await office.until(lambda: office.log.done)
    assert now() - began < 1600 / 8 / 16 * 0.2 + 15
    assert office.statuses == {("succeeded", None): 1600}
    assert len(office.endpoint.asked) == 1600
    assert max(row["starts"] for row in office.tables.results.values()) == 1


@virtual
async def test_grants_are_large_enough_for_a_few_statements_a_second() -> None:
    office = Office()
    office.bank.open(usd="1000")
    office.fill(1600)
    office.hire()
    began = now()
    await office.until(lambda: office.log.done)
    draws = office.bank.asked.count(fleet_sql.DRAW)
    assert draws <= 3 * (now() - began) + 8


@virtual
async def test_a_run_without_a_budget_is_looked_up_and_draws_nothing() -> None:
    office = Office()
    office.fill(200)
    office.hire()
    began = now()
    await office.until(lambda: office.log.done)
    assert set(office.bank.asked) == {fleet_sql.BUDGETS}
    assert len(office.bank.asked) <= 2 + (now() - began) / 2


@virtual
async def test_a_used_up_budget_holds_back_no_other_run() -> None:
    office = Office(others=(OTHER,))
    office.bank.open(usd="0.5")
    office.fill(100)
    for nth in range(200):
        office.publish(f"t-{nth}", topic=OTHER, job="tickets", run="run-7")
    office.hire(most=4)
    await office.until(lambda: office.paused)
    await office.until(lambda: office.answered("tickets") == 200)
    assert 0 < office.answered("reviews") * COST <= Decimal("0.5")


@virtual
async def test_tokens_have_a_budget_of_their_own() -> None:
    office = Office()
    office.bank.open(tokens=900)
    office.fill(400)
    for _ in range(2):
        office.hire(price=None)
    await office.until(lambda: office.paused)
    await office.rest()
    # 9 tokens a call; the first ones, before anything is learned of prompts, take 2 more than their reserve of 7.
    assert 95 <= len(office.endpoint.asked) <= 100 + 2 * 32 / 9


@virtual
async def test_calls_that_may_have_been_billed_count_with_all_they_may_have_taken() -> None:
    office = Office(lambda _: Broken(Break.TIMEOUT, "read"))
    office.bank.open(usd="2.5")
    office.fill(400)
    office.hire()
    await office.until(lambda: office.paused)
    await office.rest()
    lines = [line for key in office.tables.results for line in office.tables.calls(key)]
    assert {line["billed"] for line in lines} == {Billed.MAYBE}
    assert Decimal("2.3") <= sum(line["cost_bound_usd"] for line in lines) <= Decimal("2.5")
    assert sum(line["tokens_bound"] for line in lines) == 7 * len(lines)
    assert all(line["cost_usd"] is None for line in lines)


@virtual
async def test_calls_that_are_not_billed_cost_nothing() -> None:
    replies = iter([error(500)] * 300)
    office = Office(lambda r: next(replies, None) or answer(text_of(r)))
    office.bank.open(usd="2.7")
    office.fill(100)
    office.hire()
    await office.until(lambda: office.statuses["succeeded", None] >= 95, 3600)
    assert len(office.endpoint.asked) >= 395
    lines = [line for key in office.tables.results for line in office.tables.calls(key)]
    assert all(line["cost_bound_usd"] is None for line in lines)


@virtual
async def test_an_answer_that_says_nothing_of_tokens_counts_with_its_reserve() -> None:
    office = Office(lambda _: reply(200, {**completion(), "usage": None}))
    office.bank.open(usd="1.04")
    office.fill(100)
    office.hire()
    await office.until(lambda: office.paused)
    await office.rest()
    # 2 tokens of prompt as estimated, 5 of completion as allowed: 0.052 USD.
    assert len(office.endpoint.asked) == 20


@virtual
async def test_a_question_that_is_asked_again_reserves_for_what_it_has_grown_by() -> None:
    schema = {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}
    office = Office(lambda _: reply(200, {**completion("no JSON at all " * 100), "usage": None}))
    office.bank.open(usd="100")
    format_ = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    office.publish("r-1", job="reviews", run="run-1", params={"max_tokens": 5}, response_format=format_)
    office.hire()
    await office.until(lambda: office.log.done)
    first, second = (line["tokens_bound"] for line in office.tables.calls(("reviews", "r-1")))
    assert (first, second > first + 300) == (7, True)


@virtual
async def test_a_model_without_a_price_pauses_a_run_with_a_budget_in_money(caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    office.bank.open(usd="5")
    office.fill(20)
    with caplog.at_level(logging.ERROR):
        office.hire(price=None)
        await office.until(lambda: office.paused)
    await office.rest()
    assert not office.endpoint.asked
    lines = [line for line in caplog.records if line.message == "budget.no_price"]
    assert [(line.__dict__["job"], line.__dict__["model"]) for line in lines][:1] == [("reviews", "small")]
    for one in office.workers[0].upstreams.all:
        one.price = PRICE
    office.bank.open(usd="5")
    await office.until(lambda: office.log.done)


@virtual
async def test_while_the_database_is_away_only_what_was_granted_is_spent() -> None:
    office = Office()
    office.bank.open(usd="270")
    office.fill(4000)
    office.hire()
    await asyncio.sleep(3)
    office.bank.away = True
    granted = office.bank.runs["reviews", "run-1"].granted(0)
    await asyncio.sleep(600)
    assert office.spent <= granted
    stopped = len(office.endpoint.asked)
    assert stopped > 100
    office.bank.away = False
    await asyncio.sleep(5)
    assert len(office.endpoint.asked) > stopped


@virtual
async def test_a_worker_that_is_not_heard_of_stops_spending_before_its_grant_is_taken_back() -> None:
    office = Office(latency=5)
    office.bank.open(usd="2700")
    office.fill(4000)
    one = office.hire(most=1)
    await asyncio.sleep(20)
    office.bank.away = True
    since = now()
    await asyncio.sleep(600)
    assert max(asked.at for asked in office.endpoint.asked) - since <= SURE_SECONDS + 1
    assert one.purses is not None
    assert one.purses.waiting >= 1


@virtual
async def test_a_clean_stop_gives_everything_back() -> None:
    office = Office()
    office.bank.open(usd="270")
    office.fill(4000)
    one = office.hire()
    await asyncio.sleep(3)
    assert await one.stop()
    (holding,) = office.bank.runs["reviews", "run-1"].holdings.values()
    assert holding.granted[0] == holding.spent[0] == office.spent


@virtual
async def test_two_of_eight_that_are_killed_strand_little_and_the_cap_holds() -> None:
    office = Office()
    office.bank.open(usd="54")
    office.fill(4000)
    for _ in range(8):
        office.hire()
    await office.until(lambda: office.spent > 20)
    for one in office.workers[:2]:
        office.log.leave(one.source)
        await one.kill()
    await office.until(lambda: office.paused, 1200)
    await office.rest()
    assert Decimal("0.9") * 54 <= office.spent <= 54
    assert set(office.statuses) <= {("succeeded", None), ("claimed", None)}


@virtual
async def test_a_budget_that_is_set_while_the_run_goes_on_holds_within_seconds() -> None:
    office = Office()
    office.fill(4000)
    office.hire()
    await asyncio.sleep(3)
    office.bank.open(usd="2.7")
    await asyncio.sleep(3)
    before = office.spent
    await office.until(lambda: office.paused)
    await office.rest()
    assert office.spent - before <= Decimal("2.7")


@virtual
async def test_a_place_and_a_rate_are_not_held_while_waiting_for_money() -> None:
    office = Office()
    office.bank.open(usd="0.01")
    office.fill(10)
    one = office.hire(most=4)
    served = one.upstreams.all[0]
    served.meter.tell(600, None)
    await settle()
    await asyncio.sleep(1)
    assert not office.endpoint.asked
    assert one.upstreams.inside == 0


@virtual
async def test_messages_of_no_run_have_the_budget_of_the_run_without_a_name() -> None:
    office = Office()
    office.bank.open(run="", usd="0.27")
    office.fill(100, run=None)
    office.hire()
    await office.until(lambda: office.bank.runs["reviews", ""].state == "paused")
    await asyncio.sleep(5)
    assert office.spent <= Decimal("0.27")


def test_replies_are_what_the_prices_say() -> None:
    assert PRICE.cost(7, 2) == COST
    assert isinstance(answer(), Reply)


class Refusing(Bank):
    """Takes no draw of one run."""

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if statement == fleet_sql.DRAW and values["run"] == "run-0":
            await asyncio.sleep(0.002)
            raise StoreUnavailableError("QueryCanceled 57014")
        return await super().ask(statement, values)


@virtual
async def test_a_run_whose_row_is_locked_keeps_no_other_from_its_money() -> None:
    office = Office()
    office.bank = Refusing()
    office.bank.open(run="run-0", usd="10")
    office.bank.open(usd="10")
    office.fill(1, run="run-0")
    office.hire()
    await asyncio.sleep(5)
    office.fill(20, start=1)
    await asyncio.sleep(30)
    assert office.statuses == {("claimed", None): 1, ("succeeded", None): 20}
