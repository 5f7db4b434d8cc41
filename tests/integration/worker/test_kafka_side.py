"""What only a real broker shows: new topics, expired messages, re-created topics, dead letters, lag."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from schemas import kafka as properties
from schemas.message import Unreadable
from schemas.statuses import DeadLetter
from tests.contract.sources import KafkaHarness, eventually
from tests.fakes.samples import record
from tests.services import KafkaService
from worker.core.offsets import Partition
from worker.dead_letters import KafkaDeadLetters
from worker.watch import KafkaWatch

pytestmark = pytest.mark.integration


@pytest.fixture
async def broker(kafka: KafkaService) -> AsyncIterator[KafkaHarness]:
    made = KafkaHarness(kafka.bootstrap_servers, "classic")
    yield made
    await made.close()


async def first_value(broker: KafkaHarness, subscription: str | None = None, seconds: float = 30) -> bytes | None:
    member = await broker.member(subscription)
    async with asyncio.timeout(seconds):
        (taken,) = await member.take(1)
    member.done(taken.ticket)
    return taken.record.value


async def test_a_topic_that_does_not_exist_yet_is_waited_for(broker: KafkaHarness) -> None:
    waiting = asyncio.create_task(first_value(broker))
    await asyncio.sleep(2)
    assert not waiting.done()
    await broker.make_topic()
    await broker.publish(b"a")
    assert await waiting == b"a"


async def test_a_new_topic_that_the_expression_takes_in_is_noticed_within_ten_seconds(broker: KafkaHarness) -> None:
    member = await broker.member("^" + broker.topic.replace(".", r"\.") + r"(\..+)?$")
    await broker.make_topic()
    await broker.publish(b"a")
    async with asyncio.timeout(40):
        assert [taken.record.value for taken in await member.take(1)] == [b"a"]
    new = f"{broker.topic}.reviews"
    await broker.make_topic(new)
    await broker.publish(b"b", topic=new)
    async with asyncio.timeout(15):
        assert [taken.record.topic for taken in await member.take(1)] == [new]


async def test_messages_that_expired_unread_are_told_and_reading_goes_on_behind_them(broker: KafkaHarness) -> None:
    await broker.make_topic()
    await broker.publish(*(str(nth).encode() for nth in range(10)))
    first = await broker.member()
    async with asyncio.timeout(30):
        taken = await first.take(3)
        while len(taken) < 3:
            taken += await first.take(3 - len(taken))
    for item in taken:
        first.done(item.ticket)
    assert await first.close(20)
    (future,) = broker.admin.delete_records([TopicPartition(broker.topic, 0, 7)]).values()
    await asyncio.to_thread(future.result, 30)
    assert await first_value(broker) == b"7"
    assert broker.events.gaps == [((broker.topic, 0), 3, 7)]


async def test_nothing_is_told_where_nothing_has_expired(broker: KafkaHarness) -> None:
    await broker.make_topic()
    await broker.publish(b"a", b"b")
    assert await first_value(broker) == b"a"
    await broker.close()
    assert await first_value(broker) == b"b"
    assert broker.events.gaps == []


def watch(broker: KafkaHarness) -> KafkaWatch:
    return KafkaWatch(properties.common(broker.settings))


async def test_a_topic_made_again_under_its_name_is_another_log(broker: KafkaHarness) -> None:
    await broker.make_topic()
    one = watch(broker)
    assert one.log_name(broker.topic, 0) == f"{broker.topic}/0"
    await asyncio.to_thread(one.learn, [broker.topic])
    before = one.log_name(broker.topic, 0)
    assert before != f"{broker.topic}/0"
    (future,) = broker.admin.delete_topics([broker.topic]).values()
    await asyncio.to_thread(future.result, 30)
    await asyncio.sleep(1)
    await broker.make_topic()
    await asyncio.to_thread(one.learn, [broker.topic])
    assert one.log_name(broker.topic, 0) != before


async def test_a_broker_that_answers_and_one_that_does_not(broker: KafkaHarness) -> None:
    assert await asyncio.to_thread(watch(broker).reachable, 10) is None
    nowhere = KafkaWatch({"bootstrap.servers": "127.0.0.1:1"})
    assert await asyncio.to_thread(nowhere.reachable, 1) == "_TRANSPORT"


async def test_lag_is_the_end_less_the_commit_of_what_is_owned(
    broker: KafkaHarness, caplog: pytest.LogCaptureFixture
) -> None:
    topic = NewTopic(broker.topic, 2, 1, config={"cleanup.policy": "compact"})
    (future,) = broker.admin.create_topics([topic]).values()
    await asyncio.to_thread(future.result, 30)
    await broker.publish(*([b"x"] * 5), key=b"k")
    await broker.publish(*([b"x"] * 3), partition=1, key=b"k")
    lags: dict[Partition, int] = {}
    one = watch(broker)
    positions: dict[Partition, int | None] = {(broker.topic, 0): 2, (broker.topic, 1): None}
    with caplog.at_level(logging.WARNING):
        one.start(lambda: positions, lags.__setitem__)
        await eventually(lambda: lags == {(broker.topic, 0): 3, (broker.topic, 1): 3})
    one.stop()
    assert [vars(line)["topic"] for line in caplog.records if line.message == "topic.compacted"] == [broker.topic]


def read_letters(broker: KafkaHarness, topic: str, count: int) -> list[Any]:
    reader = Consumer(properties.common(broker.settings) | {"group.id": "reader", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = reader.consume(count, 20)
    reader.close()
    return found


async def test_a_dead_letter_is_the_raw_message_with_where_it_came_from(broker: KafkaHarness) -> None:
    topic = f"letters.{broker.topic}"
    await broker.make_topic(topic, 1)
    letters = KafkaDeadLetters(properties.producer(broker.settings), topic, "g-1", "w-1")
    headers = (("traceparent", b"\xff"), ("none", None))
    poison = record(b"tell-nobody\xff", key=b"k\xff", offset=7, partition=3, headers=headers, topic="prompts")
    assert await letters.put(poison, Unreadable(DeadLetter.NOT_JSON, "value"))
    assert await letters.put(record(b"", key=None, topic="prompts"), Unreadable(DeadLetter.NO_ID, "id"))
    letters.close()
    first, second = await asyncio.to_thread(read_letters, broker, topic, 2)
    assert (first.key(), first.value()) == (b"k\xff", b"tell-nobody\xff")
    assert (second.key(), second.value()) == (None, b"")
    assert first.headers()[:2] == [("traceparent", b"\xff"), ("none", None)]
    ours = dict(first.headers()[2:])
    assert ours == {
        "__connect.errors.topic": b"prompts",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"7",
        "__connect.errors.connector.name": b"g-1",
        "__connect.errors.task.id": b"w-1",
        "__connect.errors.stage": b"parse",
        "__connect.errors.class.name": b"not_json",
        "__connect.errors.exception.class.name": b"not_json",
    }


async def test_a_dead_letter_too_large_for_its_topic_leaves_its_size(broker: KafkaHarness) -> None:
    topic = f"letters.{broker.topic}"
    small = NewTopic(topic, 1, 1, config={"max.message.bytes": "100000"})
    (future,) = broker.admin.create_topics([small]).values()
    await asyncio.to_thread(future.result, 30)
    letters = KafkaDeadLetters(properties.producer(broker.settings), topic, "g-1", "w-1")
    large = record(os.urandom(512_000), key=b"k", topic="prompts")
    assert await letters.put(large, Unreadable(DeadLetter.NOT_JSON, "value"))
    letters.close()
    (found,) = await asyncio.to_thread(read_letters, broker, topic, 1)
    assert (found.key(), found.value()) == (b"k", None)
    assert dict(found.headers())["headrace.value.omitted.bytes"] == b"512000"


async def test_a_dead_letter_topic_that_is_not_there_is_told_as_not_delivered(
    broker: KafkaHarness, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"letters.{broker.topic}"
    quick = properties.producer(broker.settings) | {"topic.metadata.propagation.max.ms": "1000"}
    letters = KafkaDeadLetters(quick, topic, "g-1", "w-1")
    async with asyncio.timeout(60):
        assert await letters.put(record(b"tell-nobody"), Unreadable(DeadLetter.NOT_JSON, "value")) is False
    letters.close()
    assert "dead_letter.not_delivered" in caplog.text
    assert "tell-nobody" not in caplog.text


async def test_after_the_topic_has_come_a_dead_letter_is_delivered(broker: KafkaHarness) -> None:
    topic = f"letters.{broker.topic}"
    quick = properties.producer(broker.settings) | {"topic.metadata.propagation.max.ms": "1000"}
    letters = KafkaDeadLetters(quick, topic, "g-1", "w-1")
    poison = record(b"x")
    assert await letters.put(poison, Unreadable(DeadLetter.NOT_JSON, "value")) is False
    await broker.make_topic(topic)

    async def delivered() -> bool:
        return await letters.put(poison, Unreadable(DeadLetter.NOT_JSON, "value"))

    await eventually(delivered, 60)
    letters.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_back_pressure_outlives_a_rebalance_and_ends_with_it(kafka: KafkaService, protocol: str) -> None:
    """A full buffer pauses its partitions, a second member comes and goes, and all is read in the end."""
    broker = KafkaHarness(kafka.bootstrap_servers, protocol)
    await broker.make_topic()
    for partition in range(2):
        await broker.publish(*(str(nth).encode() for nth in range(3000)), partition=partition)
    first = await broker.member()
    await eventually(lambda: first._flow._pauses)
    assert first._buffer.full == {broker.topic}
    second = await broker.member()
    async with asyncio.timeout(60):
        taken = await second.take(1)
    assert taken
    second.stop()
    assert await second.close(20)
    seen: set[tuple[int, int]] = set()
    async with asyncio.timeout(60):
        while len(seen) < 6000:
            for item in await first.take(500):
                seen.add((item.record.partition, item.record.offset))
                first.done(item.ticket)
    await eventually(lambda: not first._flow._pauses)
    await broker.close()


async def test_a_member_that_is_not_polled_for_long_by_its_taker_stays_a_member(broker: KafkaHarness) -> None:
    await broker.make_topic()
    await broker.publish(*(str(nth).encode() for nth in range(3000)))
    member = await broker.member("^" + broker.topic.replace(".", r"\."))
    async with asyncio.timeout(30):
        (first,) = await member.take(1)
    await asyncio.sleep(9)
    assert broker.events.rebalances == ["assigned"]
    member.done(first.ticket)

    async def is_committed() -> bool:
        return await broker.committed() == 1

    await eventually(is_committed)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_topic_that_fills_its_part_of_the_buffer_keeps_no_other_away(
    kafka: KafkaService, protocol: str
) -> None:
    broker = KafkaHarness(kafka.bootstrap_servers, protocol)
    await broker.make_topic()
    other = f"{broker.topic}.other"
    await broker.make_topic(other)
    for partition in range(2):
        await broker.publish(*([b"x" * 100] * 3000), partition=partition)
    member = await broker.member("^" + broker.topic.replace(".", r"\.") + r"(\..+)?$")
    await eventually(lambda: member._flow._pauses)
    await broker.publish(*([b"y"] * 3000), topic=other)
    async with asyncio.timeout(20):
        taken = await member.take(1, lambda topic: int(topic == other))
    assert [item.record.topic for item in taken] == [other]
    member.weigh({other: 3.0})
    await eventually(lambda: len(member.waiting) == 2)
    seen: list[str] = [other]
    async with asyncio.timeout(60):
        while len(seen) < 9000:
            seen += [item.record.topic for item in await member.take(20)]
            # As a fleet does, more slowly than messages can come.
            await asyncio.sleep(0.02)
    assert seen.count(other) == 3000
    part = seen[1000:3500]
    assert 2.0 < part.count(other) / part.count(broker.topic) < 4.0
    await broker.close()


async def test_a_parked_topic_tells_what_has_expired_in_the_meantime(broker: KafkaHarness) -> None:
    await broker.make_topic()
    await broker.publish(*(str(nth).encode() for nth in range(10)))
    member = await broker.member()
    async with asyncio.timeout(30):
        (first,) = await member.take(1)
    member.done(first.ticket)
    member.park([broker.topic])
    await eventually(lambda: not member.owns(first.ticket))
    (future,) = broker.admin.delete_records([TopicPartition(broker.topic, 0, 7)]).values()
    await asyncio.to_thread(future.result, 30)
    member.park([])
    async with asyncio.timeout(30):
        (found,) = await member.take(1)
    assert found.record.value == b"7"
    assert broker.events.gaps == [((broker.topic, 0), 1, 7)]
    assert broker.events.rebalances == ["assigned"]
