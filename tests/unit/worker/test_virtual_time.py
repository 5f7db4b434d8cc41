"""The clock that jumps: without it the other tests would show nothing."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.fakes.virtual_time import StuckError, now, run, virtual


def test_an_hour_of_a_thousand_tasks_passes_at_once_and_in_order() -> None:
    ended: list[int] = []

    async def sleeper(nth: int) -> None:
        await asyncio.sleep(3600 + nth)
        ended.append(nth)

    async def main() -> float:
        began = now()
        await asyncio.gather(*(sleeper(nth) for nth in reversed(range(1000))))
        return now() - began

    before = time.monotonic()
    assert run(main()) == pytest.approx(4599)
    assert time.monotonic() - before < 30
    assert ended == list(range(1000))


def test_waiting_for_nothing_raises() -> None:
    with pytest.raises(StuckError):
        run(asyncio.Event().wait())


@virtual
async def test_a_timeout_is_a_timer_too() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await asyncio.Event().wait()


@virtual
async def test_what_is_sent_to_a_thread_runs_in_place() -> None:
    assert await asyncio.to_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 // 0)
