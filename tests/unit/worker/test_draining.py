"""A stop on one budget: what can end in time ends, the rest is given back, nothing is lost or asked in vain."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.endpoint import answer
from tests.fakes.store import FakeStore
from tests.fakes.virtual_time import never, now, virtual
from tests.unit.worker.test_main_path import Away, Mill, P
from worker.core.reply import Reply
from worker.ports import Request


@virtual
async def test_calls_that_end_within_the_budget_are_stored_and_committed() -> None:
    mill = Mill(latency=10)
    for nth in range(8):
        mill.publish(f"r-{nth}")
    worker = mill.worker()
    await asyncio.sleep(1)
    before = now()
    assert await worker.stop(25) is True
    assert now() - before < 15
    assert mill.log.committed[P] == 8
    assert len(mill.endpoint.asked) == 8
    assert all(row["status"] == "succeeded" for row in mill.tables.results.values())


@virtual
async def test_calls_that_do_not_are_given_back_at_once_and_redone_once_by_the_next_owner() -> None:
    mill = Mill(latency=300)
    for nth in range(8):
        mill.publish(f"r-{nth}")
    worker = mill.worker()
    await asyncio.sleep(1)
    before = now()
    assert await worker.stop(25) is True
    assert now() - before <= 25
    for id_ in [f"r-{nth}" for nth in range(8)]:
        (line,) = mill.tables.calls(("default", id_))
        assert (line["outcome"], line["billed"]) == ("abandoned", "maybe")
    began = now()
    mill.worker()
    await mill.until(lambda: mill.log.done)
    assert now() - began < 310
    assert [mill.called(f"r-{nth}") for nth in range(8)] == [2] * 8
    assert all(row["starts"] == 1 for row in mill.tables.results.values())


@virtual
async def test_no_call_begins_once_a_stop_is_asked() -> None:
    mill = Mill(latency=5)
    for nth in range(100):
        mill.publish(f"r-{nth}")
    worker = mill.worker(most=4)
    await asyncio.sleep(1)
    began = len(mill.endpoint.asked)
    await worker.stop(25)
    assert len(mill.endpoint.asked) == began == 4


@virtual
async def test_after_a_stop_the_next_worker_needs_no_lease_to_run_out() -> None:
    mill = Mill(latency=5)
    for nth in range(100):
        mill.publish(f"r-{nth}")
    worker = mill.worker(most=4)
    await asyncio.sleep(1)
    await worker.stop(25)
    began = now()
    mill.worker(most=32)
    await mill.until(lambda: mill.log.done)
    assert now() - began < 30
    assert len(mill.endpoint.asked) == 100


@virtual
async def test_a_store_that_comes_back_within_the_budget_gets_the_answers_that_were_waiting() -> None:
    mill = Mill(latency=2)
    for nth in range(8):
        mill.publish(f"r-{nth}")
    worker = mill.worker(Away(mill.tables, 1001, 1010))
    await asyncio.sleep(4)
    assert await worker.stop(25) is True
    assert all(row["status"] == "succeeded" for row in mill.tables.results.values())
    assert mill.log.committed[P] == 8


@virtual
async def test_a_store_that_stays_away_ends_the_drain_in_time_and_unclean() -> None:
    mill = Mill(latency=2)
    for nth in range(8):
        mill.publish(f"r-{nth}")
    worker = mill.worker(Away(mill.tables, 1001, 10**9))
    await asyncio.sleep(4)
    before = now()
    assert await worker.stop(25) is False
    assert now() - before <= 25.5
    assert mill.log.committed.get(P, 0) == 0
    began = now()
    mill.worker(FakeStore(mill.tables, "next"))
    await mill.until(lambda: mill.log.done)
    assert now() - began < 70
    assert [mill.called(f"r-{nth}") for nth in range(8)] == [2] * 8


@virtual
async def test_a_message_whose_end_is_open_stays_uncommitted() -> None:
    mill = Mill(latency=0.1)

    async def hang(request: Request) -> Reply:
        return await never() if request.id == "r-3" else answer()

    mill.endpoint.handler = hang
    for nth in range(5):
        mill.publish(f"r-{nth}")
    worker = mill.worker()
    await asyncio.sleep(5)
    await worker.stop(10)
    assert mill.log.committed[P] == 3


@virtual
async def test_a_stop_with_nothing_in_hand_takes_no_time() -> None:
    worker = Mill().worker()
    await asyncio.sleep(5)
    before = now()
    assert await worker.stop(25) is True
    assert now() - before < 1


@pytest.mark.parametrize("budget", [1.0, 5.0, 25.0, 120.0])
def test_the_budget_is_kept_whatever_it_is(budget: float) -> None:
    @virtual
    async def stopped() -> None:
        mill = Mill(latency=1e6)
        for nth in range(50):
            mill.publish(f"r-{nth}")
        worker = mill.worker()
        await asyncio.sleep(1)
        before = now()
        await worker.stop(budget)
        assert now() - before <= budget + 0.5

    stopped()


@virtual
async def test_a_drain_that_is_longer_than_a_lease_keeps_its_claims() -> None:
    mill = Mill(latency=150, partitions=2)
    for partition in (0, 1):
        mill.publish("r-1", partition=partition)
    worker = mill.worker()
    await asyncio.sleep(1)
    stopping = asyncio.create_task(worker.stop(300))
    # The next one is given a partition with the same row.
    mill.worker()
    assert await stopping is True
    await mill.until(lambda: mill.log.done)
    assert mill.called("r-1") == 1
    assert mill.row("r-1")["status"] == "succeeded"
