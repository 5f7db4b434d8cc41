"""Calls that wait for money: who may try again, and when."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from schemas.models import Price
from tests.fakes.virtual_time import now, settle, virtual
from worker.account import Account
from worker.core.amounts import Amount
from worker.core.budget import Limits, Purse

PRICE = Price(input_per_million=Decimal(1), output_per_million=Decimal(1))


def usd(amount: int) -> Amount:
    return Amount(Decimal(amount))


def account(granted: int) -> Account:
    purse = Purse(Limits(usd=True, tokens=False))
    purse.drawn(usd(granted), purse.draw([usd(granted)], now()))
    return Account("reviews", "run-1", purse)


async def wait(one: Account, *amounts: int, price: Price | None = PRICE) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(one.wait(usd(amount), "small", price)) for amount in amounts]
    await settle()
    return tasks


@virtual
async def test_those_try_again_for_whom_there_is_enough_in_the_order_of_their_coming() -> None:
    one = account(10)
    tasks = await wait(one, 6, 20, 3, 2, 1)
    one.wake(now())
    await settle()
    assert [task.done() for task in tasks] == [True, False, True, False, True]
    assert one.waits == 2
    one.wake_all()
    await asyncio.gather(*tasks)
    assert one.waits == 0


@virtual
async def test_who_is_cancelled_waits_no_more() -> None:
    one = account(1)
    (task,) = await wait(one, 5)
    task.cancel()
    await settle()
    assert one.waits == 0


@virtual
async def test_a_call_without_a_price_waits_for_one_and_not_for_money() -> None:
    one = account(10)
    (task,) = await wait(one, 1, price=None)
    one.wake(now())
    await settle()
    assert (task.done(), one.unpriced, len(one.waiting)) == (False, "small", 0)
    one.look_at_prices()
    await task
