"""The source: every message once to somebody, in order, and commits that never pass what is unfinished.

The same on the log in memory and on Kafka, with the classic group protocol and with the broker's own.
"""

from __future__ import annotations

import asyncio

from tests.contract.sources import PARTITIONS, Member, SourceHarness, eventually
from worker.ports import Taken


async def take(member: Member, count: int, seconds: float = 40.0) -> list[Taken]:
    """Take so many messages, in as many turns as it needs."""
    taken: list[Taken] = []
    async with asyncio.timeout(seconds):
        while len(taken) < count:
            taken += await member.take(count - len(taken))
    return taken


def values(taken: list[Taken]) -> list[bytes | None]:
    return [item.record.value for item in taken]


def numbered(start: int, stop: int) -> list[bytes]:
    return [str(nth).encode() for nth in range(start, stop)]


async def is_committed(source: SourceHarness, offset: int, partition: int = 0) -> None:
    async def reached() -> bool:
        return await source.committed(partition) == offset

    await eventually(reached)


async def test_messages_of_a_partition_come_in_order_with_all_their_parts(source: SourceHarness) -> None:
    headers = [("traceparent", b"\x00\xff"), ("empty", None), ("traceparent", b"again")]
    await source.publish(b"a", key=b"k\xff", headers=headers)
    await source.publish(b"b", b"", None, key=b"k")
    await source.publish(b"c")
    taken = await take(await source.member(), 5)
    assert values(taken) == [b"a", b"b", b"", None, b"c"]
    assert [item.record.offset for item in taken] == [0, 1, 2, 3, 4]
    assert [item.record.key for item in taken] == [b"k\xff", b"k", b"k", b"k", None]
    assert taken[0].record.headers == tuple(headers)
    assert {(item.record.topic, item.record.partition) for item in taken} == {(source.topic, 0)}
    assert all(item.record.timestamp is not None and item.record.log for item in taken)
    assert [item.ticket.offset for item in taken] == [0, 1, 2, 3, 4]


async def test_a_turn_gives_no_more_than_was_asked_for_and_waits_for_the_first(source: SourceHarness) -> None:
    member = await source.member()
    waiting = asyncio.create_task(member.take(2))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await source.publish(*numbered(0, 5))
    async with asyncio.timeout(40):
        first = await waiting
    assert 1 <= len(first) <= 2
    rest = await take(member, 5 - len(first))
    assert values([*first, *rest]) == numbered(0, 5)


async def test_only_what_is_finished_without_a_gap_is_committed(source: SourceHarness) -> None:
    await source.publish(*numbered(0, 10))
    member = await source.member()
    taken = await take(member, 10)
    for nth in (9, 8, 7, 6, 4, 3, 2, 1, 0):
        member.done(taken[nth].ticket)
        member.done(taken[nth].ticket)
    await is_committed(source, 5)
    await asyncio.sleep(1.5)
    assert await source.committed() == 5
    member.done(taken[5].ticket)
    await is_committed(source, 10)


async def test_a_member_that_leaves_commits_what_is_finished_and_the_next_begins_there(source: SourceHarness) -> None:
    await source.publish(*numbered(0, 10))
    first = await source.member()
    taken = await take(first, 10)
    for nth in (0, 1, 2, 4):
        first.done(taken[nth].ticket)
    assert await first.close(20)
    assert await source.committed() == 3
    second = await source.member()
    assert values(await take(second, 7)) == numbered(3, 10)


async def test_after_a_stop_nothing_is_given_out_and_what_is_in_hand_may_still_end(source: SourceHarness) -> None:
    await source.publish(*numbered(0, 4))
    member = await source.member()
    taken = await take(member, 2)
    member.stop()
    assert await member.take(5) == []
    for item in taken:
        assert member.owns(item.ticket)
        member.done(item.ticket)
    await is_committed(source, 2)
    assert await member.close(20)
    assert values(await take(await source.member(), 2)) == numbered(2, 4)


async def test_a_taker_that_waits_is_let_go_by_a_stop(source: SourceHarness) -> None:
    member = await source.member()
    waiting = asyncio.create_task(member.take(1))
    await asyncio.sleep(0.1)
    member.stop()
    async with asyncio.timeout(10):
        assert await waiting == []


async def test_a_second_member_takes_over_a_part_and_what_was_unfinished_there(source: SourceHarness) -> None:
    for partition in range(PARTITIONS):
        await source.publish(*numbered(0, 4), partition=partition)
    first = await source.member()
    taken = await take(first, 8)
    for item in taken:
        if item.record.offset < 2:
            first.done(item.ticket)
    second = await source.member()
    again = await take(second, 2)
    (moved,) = {item.record.partition for item in again}
    assert [item.record.offset for item in again] == [2, 3]
    assert await source.committed(moved) == 2
    gone = [item for item in taken if item.record.partition == moved]
    kept = [item for item in taken if item.record.partition != moved]
    await eventually(lambda: not any(first.owns(item.ticket) for item in gone))
    assert all(first.owns(item.ticket) for item in kept)
    for item in [*gone, *kept]:
        first.done(item.ticket)
    await is_committed(source, 4, 1 - moved)
    assert await source.committed(moved) == 2
    for item in again:
        second.done(item.ticket)
    await is_committed(source, 4, moved)


async def test_nobody_misses_a_message_while_members_come_and_go(source: SourceHarness) -> None:
    total, seen = 60, set[tuple[int, int]]()
    stop = asyncio.Event()

    async def work(member: Member) -> None:
        while taken := await member.take(3):
            await asyncio.sleep(0.02)
            for item in taken:
                seen.add((item.record.partition, item.record.offset))
                member.done(item.ticket)

    async def publish() -> None:
        for nth in range(total):
            await source.publish(str(nth).encode(), partition=nth % PARTITIONS)
            await asyncio.sleep(0.05)
        stop.set()

    publishing = asyncio.create_task(publish())
    members = [await source.member()]
    working = [asyncio.create_task(work(members[0]))]
    for _ in range(2):
        members.append(await source.member())
        working.append(asyncio.create_task(work(members[-1])))
        await asyncio.sleep(1)
        leaving = members.pop(0)
        leaving.stop()
        assert await leaving.close(20)
    await publishing
    for partition in range(PARTITIONS):
        await is_committed(source, total // PARTITIONS, partition)
    assert seen == {(partition, offset) for partition in range(PARTITIONS) for offset in range(total // PARTITIONS)}
    for member in members:
        member.stop()
    await asyncio.gather(*working)


async def test_a_backlog_is_taken_in_whole(source: SourceHarness) -> None:
    await source.publish(*numbered(0, 3000), partition=1)
    member = await source.member()
    taken = await take(member, 3000)
    assert values(taken) == numbered(0, 3000)
    for item in reversed(taken):
        member.done(item.ticket)
    await is_committed(source, 3000, 1)


async def test_a_parked_topic_gives_nothing_and_is_read_again_from_its_commit(source: SourceHarness) -> None:
    await source.publish(*numbered(0, 6))
    member = await source.member()
    taken = await take(member, 4)
    for item in taken[:2]:
        member.done(item.ticket)
    member.park([source.topic])
    await eventually(lambda: not member.owns(taken[2].ticket))
    await is_committed(source, 2)
    await source.publish(*numbered(6, 8))
    waiting = asyncio.create_task(member.take(10))
    await asyncio.sleep(1)
    assert not waiting.done()
    for item in taken[2:]:
        member.done(item.ticket)
    await asyncio.sleep(1.5)
    assert await source.committed() == 2, "a ticket from before the parking moves no commit"
    member.park([])
    async with asyncio.timeout(40):
        again = await waiting
    again += await take(member, 6 - len(again))
    assert values(again) == numbered(2, 8)
    for item in again:
        member.done(item.ticket)
    await is_committed(source, 8)


async def test_a_topic_that_was_parked_before_anything_was_committed_is_read_from_its_start(
    source: SourceHarness,
) -> None:
    await source.publish(*numbered(0, 3))
    member = await source.member()
    await take(member, 3)
    member.park([source.topic])
    member.park([])
    member.reread([source.topic])
    assert values(await take(member, 3)) == numbered(0, 3)


async def test_what_arrives_of_a_parked_topic_is_parked_too(source: SourceHarness) -> None:
    for partition in range(PARTITIONS):
        await source.publish(*numbered(0, 3), partition=partition)
    first = await source.member()
    taken = await take(first, 6)
    first.park([source.topic])
    await eventually(lambda: not any(first.owns(item.ticket) for item in taken))
    second = await source.member(parked=[source.topic])
    third = await source.member(parked=[source.topic])
    waiting = [asyncio.create_task(member.take(10)) for member in (first, second, third)]
    await asyncio.sleep(8)
    assert not any(task.done() for task in waiting)
    third.stop()
    assert await third.close(20)
    assert await waiting.pop() == []
    for member in (first, second):
        member.park([])
    seen: set[tuple[int, int]] = set()
    async with asyncio.timeout(40):
        for task, member in zip(waiting, (first, second), strict=True):
            found = await task
            while True:
                seen |= {(item.record.partition, item.record.offset) for item in found}
                if not found or len(found) >= 3:
                    break
                found = await member.take(10)
    assert seen == {(partition, offset) for partition in range(PARTITIONS) for offset in range(3)}


async def test_a_topic_is_read_again_from_its_commit_when_asked(source: SourceHarness) -> None:
    await source.publish(*numbered(0, 5))
    member = await source.member()
    taken = await take(member, 5)
    member.done(taken[0].ticket)
    member.done(taken[4].ticket)
    member.reread([source.topic])
    again = await take(member, 4)
    assert values(again) == numbered(1, 5)
    assert not any(member.owns(item.ticket) for item in taken)
    for item in again:
        member.done(item.ticket)
    await is_committed(source, 5)


async def test_a_member_that_leaves_while_parked_leaves_its_commit_as_it_is(source: SourceHarness) -> None:
    await source.publish(*numbered(0, 4))
    member = await source.member()
    taken = await take(member, 4)
    member.done(taken[0].ticket)
    member.park([source.topic])
    await eventually(lambda: not member.owns(taken[1].ticket))
    for item in taken:
        member.done(item.ticket)
    member.stop()
    assert await member.close(20)
    assert await source.committed() == 1
    assert values(await take(await source.member(), 3)) == numbered(1, 4)


async def test_a_turn_takes_of_each_topic_no_more_than_it_is_allowed_and_goes_on_when_told_to_look(
    source: SourceHarness,
) -> None:
    await source.publish(*numbered(0, 5))
    member = await source.member()
    left = {source.topic: 0}
    waiting = asyncio.create_task(member.take(10, lambda topic: left[topic]))
    await eventually(lambda: source.topic in member.waiting)
    await asyncio.sleep(0.3)
    assert not waiting.done()
    left[source.topic] = 2
    member.look()
    async with asyncio.timeout(10):
        assert await waiting == []
        assert values(await member.take(10, lambda topic: left[topic])) == numbered(0, 2)
