"""What the source's suite needs of each kind of source beside the port itself."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from schemas import kafka
from schemas.settings import KafkaSettings
from tests.fakes.source import FakeLog, FakeSource
from worker.consumer import KafkaSource
from worker.core.offsets import Partition
from worker.ports import Source

PARTITIONS = 2
Headers = Sequence[tuple[str, bytes | None]]


class Member(Source, Protocol):
    """A source as its owner has it: it can also leave."""

    async def close(self, seconds: float) -> bool:
        """Commit what is finished and leave the group."""


class SourceHarness(Protocol):
    """A topic of two partitions and a group."""

    topic: str

    async def member(self, *, parked: Collection[str] = ()) -> Member:
        """Join the group, with these topics parked from the first."""

    async def publish(
        self, *values: bytes | None, partition: int = 0, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        """Append messages."""

    async def committed(self, partition: int = 0) -> int:
        """The group's committed offset; 0 without one."""

    async def close(self) -> None:
        """Let everything go."""


class FakeHarness:
    """The log in memory."""

    def __init__(self) -> None:
        self._log = FakeLog(partitions=PARTITIONS)
        self._tasks: list[asyncio.Task[None]] = []
        self.topic = self._log.topic

    async def member(self, *, parked: Collection[str] = ()) -> Member:
        member = FakeSource(self._log, commit_seconds=0.05)
        member.park(parked)
        self._tasks.append(asyncio.create_task(member.run()))
        self._log.join(member)
        return member

    async def publish(
        self, *values: bytes | None, partition: int = 0, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        for value in values:
            self._log.publish(value, partition=partition, key=key, headers=tuple(headers))

    async def committed(self, partition: int = 0) -> int:
        return self._log.committed.get((self.topic, partition), 0)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()


class Events:
    """Remembers what the consumer's thread tells."""

    def __init__(self) -> None:
        self.rebalances: list[str] = []
        self.gaps: list[tuple[Partition, int, int]] = []
        self.failures: list[str] = []

    def rebalanced(self, what: str, partitions: Iterable[Partition]) -> None:
        self.rebalances.append(what)

    def skipped(self, partition: Partition, expected: int, found: int) -> None:
        self.gaps.append((partition, expected, found))

    def commit_failed(self, code: str) -> None:
        self.failures.append(code)


class Names:
    """Names a log by its topic."""

    def learn(self, topics: Iterable[str]) -> None:
        return

    def log_name(self, topic: str, partition: int) -> str:
        return f"{topic}/{partition}"


class KafkaHarness:
    """A topic and a group of their own on a running Kafka; `protocol` is how the group is kept."""

    def __init__(self, servers: str, protocol: str) -> None:
        environ = {"KAFKA_BOOTSTRAP_SERVERS": servers, "KAFKA_CONSUMER_CONF": f"group.protocol={protocol}"}
        if protocol == "classic":
            # As short as the broker allows, so that a test of a lost member does not take long.
            environ["KAFKA_CONSUMER_CONF"] += ",session.timeout.ms=6000,heartbeat.interval.ms=500"
        self.settings = KafkaSettings.read(environ)
        self.group = f"group-{uuid.uuid4().hex[:12]}"
        self.topic = f"headrace.prompts.t-{uuid.uuid4().hex[:12]}"
        self.events = Events()
        self.admin = AdminClient({**kafka.common(self.settings)})
        self._producer = Producer(kafka.producer(self.settings) | {"linger.ms": "0"})
        self._members: list[KafkaSource] = []

    async def make_topic(self, topic: str | None = None, partitions: int = PARTITIONS) -> None:
        """Create a topic, the harness's own unless named."""
        (future,) = self.admin.create_topics([NewTopic(topic or self.topic, partitions, 1)]).values()
        await asyncio.to_thread(future.result, 30)

    async def member(self, subscription: str | None = None, *, parked: Collection[str] = ()) -> KafkaSource:
        config = kafka.consumer(self.settings, self.group)
        member = KafkaSource(config, subscription or self.topic, self.events, Names())
        member.park(parked)
        self._members.append(member)
        member.start()
        return member

    async def publish(
        self,
        *values: bytes | None,
        partition: int = 0,
        key: bytes | None = None,
        headers: Headers = (),
        topic: str | None = None,
    ) -> None:
        for value in values:
            self._producer.produce(topic or self.topic, value, key, partition, headers=list(headers))
        await asyncio.to_thread(self._producer.flush, 30)

    async def committed(self, partition: int = 0) -> int:
        def ask() -> int:
            asking = Consumer(kafka.common(self.settings) | {"group.id": self.group})
            try:
                (found,) = asking.committed([TopicPartition(self.topic, partition)], timeout=10)
            finally:
                asking.close()
            return max(found.offset, 0)

        return await asyncio.to_thread(ask)

    async def close(self) -> None:
        for member in self._members:
            member.stop()
            await member.close(10)


async def eventually(holds: Callable[[], object], seconds: float = 40.0) -> None:
    """Wait for a state with a deadline; `holds` may be a coroutine function."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        found = holds()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert loop.time() < deadline, "never came"
        await asyncio.sleep(0.05)
