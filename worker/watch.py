"""What only the brokers know of our partitions: where they end, and which topic of that name it is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType  # type: ignore[attr-defined]

from schemas.kafka import CHECK, Refusals
from worker.core.offsets import Partition
from worker.errors import WrongSettingsError
from worker.messages import made

log = logging.getLogger(__name__)

_EVERY_SECONDS = 4.0
_BROKER_SECONDS = 5.0
# A stop waits for who asks.
_QUICK_SECONDS = 2.0
Ends = Callable[[Partition, int], None]


class KafkaWatch:
    """Looks every few seconds, on a thread of its own: lag is never older than 10 s, the poll loop never waits."""

    def __init__(self, config: dict[str, str]) -> None:
        self._config = config
        self._refusals = Refusals()
        wanted: dict[str, Any] = {**config, "error_cb": self._refusals}
        self._admin = made(lambda: AdminClient(wanted, logger=logging.getLogger("librdkafka")))
        self._ids: dict[str, str] = {}
        self._checked: set[str] = set()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, positions: Callable[[], Mapping[Partition, int | None]], lag: Ends) -> None:
        """Report `end - committed` of each owned partition to `lag`."""
        self._thread = threading.Thread(target=self._run, args=(positions, lag), name="kafka-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._closing.set()

    def reachable(self, seconds: float) -> str | None:
        """Ask any broker for its topics; says what is wrong, or None. Raises `WrongSettingsError` for a refusal."""
        try:
            self._admin.list_topics(timeout=seconds)
        except KafkaException as error:
            self._admin.poll(0)
            if self._refusals.last:
                raise WrongSettingsError(f"kafka: {CHECK}: {self._refusals.last}") from None
            return str(error.args[0].name())
        return None

    def log_name(self, topic: str, partition: int) -> str:
        """Name a partition's log: by the topic's id, so that a re-created topic is another log, else by its name."""
        return f"{self._ids.get(topic, topic)}/{partition}"

    def learn(self, topics: Iterable[str]) -> None:
        """Look up the ids of topics; without an answer their names have to do."""
        wanted = sorted(set(topics))
        if not wanted:
            return
        found = self._admin.describe_topics(TopicCollection(wanted), request_timeout=_BROKER_SECONDS)
        for topic, future in found.items():
            try:
                self._ids[topic] = str(future.result().topic_id)
            except KafkaException as error:
                log.debug("watch.no_topic_id", extra={"topic": topic, "what": error.args[0].name()})

    def is_read(self, group: str, topic: str, until: datetime) -> bool:
        """Whether a group has committed all that was published to a topic before an instant; False without an answer.

        Blocks for a few seconds at most.
        """
        try:
            return self._has_read(group, topic, OffsetSpec.for_timestamp(int(until.timestamp() * 1000)))
        except KafkaException as error:
            log.debug("watch.no_answer", extra={"what": error.args[0].name()})
            return False

    def _has_read(self, group: str, topic: str, until: OffsetSpec) -> bool:
        known = self._admin.list_topics(topic, _QUICK_SECONDS).topics[topic]
        partitions = [(topic, number) for number in known.partitions]
        if not partitions:
            return False
        committed = self._committed(group, partitions)
        ends = self._offsets(partitions, until)
        later = [partition for partition, end in ends.items() if end < 0]
        ends |= self._offsets(later, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return all(committed.get(partition, 0) >= end for partition, end in ends.items())

    def _committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Ask as nobody's member: librdkafka's admin client dies of a coordinator that has just moved."""
        config = {**self._config, "group.id": group, "enable.auto.commit": "false"}
        with closing(Consumer(config, logger=logging.getLogger("librdkafka"))) as nobody:
            found = nobody.committed([TopicPartition(*p) for p in partitions], timeout=_QUICK_SECONDS)
        return {(p.topic, p.partition): max(0, p.offset) for p in found if p.error is None}

    def _run(self, positions: Callable[[], Mapping[Partition, int | None]], lag: Ends) -> None:
        while not self._closing.wait(_EVERY_SECONDS):
            try:
                self._look(positions(), lag)
            except KafkaException as error:
                log.debug("watch.no_answer", extra={"what": error.args[0].name()})

    def _look(self, owned: Mapping[Partition, int | None], lag: Ends) -> None:
        topics = {topic for topic, _ in owned}
        self.learn(topics)
        self._warn_of_compaction(topics)
        starts = self._offsets([p for p, committed in owned.items() if committed is None], OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._offsets(owned, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        for partition, end in ends.items():
            lag(partition, end - (owned[partition] or starts.get(partition, 0)))

    def _offsets(self, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        asked = {TopicPartition(*partition): spec for partition in partitions}
        found = self._admin.list_offsets(asked, request_timeout=_BROKER_SECONDS) if asked else {}
        return {(p.topic, p.partition): future.result().offset for p, future in found.items()}

    def _warn_of_compaction(self, topics: set[str]) -> None:
        """A compacted topic throws the older versions of a row away before anybody has read them."""
        new = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics - self._checked]
        found = self._admin.describe_configs(new, request_timeout=_BROKER_SECONDS) if new else {}
        for resource, future in found.items():
            self._checked.add(resource.name)
            if "compact" in str(future.result()["cleanup.policy"].value):
                log.warning("topic.compacted", extra={"topic": resource.name})
