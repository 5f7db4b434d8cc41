"""The orders as they come from the database: often enough, and the last ones stand while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.fakes.fleet import half
from tests.fakes.virtual_time import now, virtual
from worker import fleet_sql
from worker.core.orders import Orders, Word
from worker.errors import StopAskedError, StoreUnavailableError
from worker.orders import OrderDesk

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Database:
    """Answers with these rows; `away` until an instant."""

    def __init__(self, away: float = 0.0) -> None:
        self.runs: list[tuple[Any, ...]] = [("reviews", "r1", "paused", None), ("tickets", "", "cancelled", NOON)]
        self.topics: list[tuple[Any, ...]] = [("p.reviews", True, 0), ("p", True, 3)]
        self.away = away

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if now() < self.away:
            raise StoreUnavailableError("OperationalError")
        return {fleet_sql.ORDERED_RUNS: self.runs, fleet_sql.OPEN_TOPICS: self.topics}[statement]


class Heard:
    """Remembers the orders and when they came."""

    def __init__(self) -> None:
        self.orders: list[tuple[float, Orders]] = []

    def __call__(self, orders: Orders) -> None:
        self.orders.append((now(), orders))


@virtual
async def test_orders_are_read_as_the_tables_have_them() -> None:
    heard = Heard()
    await OrderDesk(Database().ask, heard, half, {"p"}).open(asyncio.Event())
    ((_, orders),) = heard.orders
    assert orders.word("reviews", "r1", NOON) is Word.WAIT
    assert orders.word("tickets", None, NOON) is Word.END
    assert orders.parked == {"p.reviews"}
    assert orders.weights == {"p.reviews": 1.0, "p": 8.0}


@virtual
async def test_an_order_is_heard_within_two_and_a_half_seconds() -> None:
    heard, database = Heard(), Database()
    desk = asyncio.create_task(OrderDesk(database.ask, heard, lambda: 0.999, ()).run())
    await asyncio.sleep(60)
    desk.cancel()
    times = [at for at, _ in heard.orders]
    assert max(b - a for a, b in pairwise(times)) <= 2.5
    assert len(times) < 60


@virtual
async def test_the_first_orders_are_waited_for_and_the_last_ones_stand_while_the_database_is_away() -> None:
    heard, database = Heard(), Database(away=1010.0)
    desk = OrderDesk(database.ask, heard, half, ())
    await desk.open(asyncio.Event())
    assert now() >= 1010
    database.away = 2000.0
    running = asyncio.create_task(desk.run())
    await asyncio.sleep(500)
    assert len(heard.orders) == 1
    await asyncio.sleep(600)
    assert len(heard.orders) > 1
    running.cancel()


@virtual
async def test_a_stop_ends_the_waiting_for_the_first_orders_at_once() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(100.25, stop.set)
    with pytest.raises(StopAskedError):
        await OrderDesk(Database(away=10**9).ask, Heard(), half, ()).open(stop)
    assert now() == pytest.approx(1100.25)
