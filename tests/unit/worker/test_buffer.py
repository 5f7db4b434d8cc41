"""Messages between the consumer's thread and the event loop: bounded, ordered, and woken from both sides."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.samples import TOPIC, record
from tests.fakes.virtual_time import settle, virtual
from worker.buffer import MOST_BYTES, MOST_MESSAGES, Buffer
from worker.core.offsets import Ticket
from worker.ports import Taken


def taken(offset: int, partition: int = 0, size: int = 10) -> Taken:
    of = record(b"x" * size, offset=offset, partition=partition)
    return Taken(of, Ticket((TOPIC, partition), offset, 1))


def bound() -> Buffer:
    buffer = Buffer()
    buffer.bind(asyncio.get_running_loop())
    return buffer


def offsets(items: list[Taken]) -> list[int]:
    return [item.record.offset for item in items]


@virtual
async def test_what_went_in_comes_out_in_order_and_never_more_than_asked() -> None:
    buffer = bound()
    buffer.extend(map(taken, range(5)))
    assert offsets(await buffer.take(2)) == [0, 1]
    assert offsets(await buffer.take(10)) == [2, 3, 4]


@virtual
async def test_a_taker_waits_for_the_first_message() -> None:
    buffer = bound()
    waiting = asyncio.create_task(buffer.take(3))
    await settle()
    assert not waiting.done()
    buffer.extend([taken(7)])
    assert offsets(await waiting) == [7]


@virtual
async def test_it_is_bounded_in_messages() -> None:
    buffer = bound()
    assert buffer.room == MOST_MESSAGES
    buffer.extend(map(taken, range(MOST_MESSAGES)))
    assert buffer.room == 0
    await buffer.take(10)
    assert buffer.room == 10


@virtual
async def test_it_is_bounded_in_bytes() -> None:
    buffer = bound()
    buffer.extend(taken(offset, size=1_000_000) for offset in range(MOST_BYTES // 1_000_000 + 1))
    assert buffer.room == 0
    await buffer.take(1)
    assert buffer.room > 0


@virtual
async def test_messages_of_partitions_that_left_are_thrown_away_and_free_their_room() -> None:
    buffer = bound()
    buffer.extend(taken(offset, partition=offset % 2, size=MOST_BYTES // 10 + 1) for offset in range(10))
    assert buffer.room == 0
    buffer.purge({(TOPIC, 0)})
    assert buffer.room > 0
    assert offsets(await buffer.take(100)) == [1, 3, 5, 7, 9]


@virtual
async def test_a_closed_buffer_gives_nothing_and_takes_nothing() -> None:
    buffer = bound()
    buffer.extend([taken(0)])
    waiting = asyncio.create_task(buffer.take(0))
    buffer.close()
    buffer.extend([taken(1)])
    assert await waiting == []
    assert await buffer.take(5) == []
    assert buffer.room == 0


@virtual
async def test_a_taker_hears_why_nothing_will_come() -> None:
    buffer = bound()
    waiting = asyncio.create_task(buffer.take(5))
    await settle()
    buffer.fail(ValueError("fenced"))
    with pytest.raises(ValueError, match="fenced"):
        await waiting


@virtual
async def test_room_is_found_at_once_or_waited_for_in_vain() -> None:
    buffer = bound()
    assert buffer.wait_for_room(0.0)
    buffer.extend(map(taken, range(MOST_MESSAGES)))
    assert not buffer.wait_for_room(0.01)
    await buffer.take(MOST_MESSAGES // 2 + 1)
    assert buffer.wait_for_room(0.0)


@virtual
async def test_a_look_lets_a_taker_that_waits_go_and_nobody_else() -> None:
    buffer = bound()
    buffer.look()
    buffer.extend([taken(0)])
    assert offsets(await buffer.take(5)) == [0]
    waiting = asyncio.create_task(buffer.take(5))
    await settle()
    assert not waiting.done()
    buffer.look()
    assert await waiting == []
