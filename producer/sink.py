"""Kafka: the topic, and messages whose acknowledgements are counted. The one file that knows its client."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from producer.errors import DeliveryError, UnreachableError, WrongJobError
from schemas import kafka, topics
from schemas.settings import KafkaSettings

# A task that Spark starts again asks for the broker first, so a dead one ends the run in 180 s and a few times 15 s.
DELIVERY_SECONDS = 180
_PROBE_SECONDS = 15
_ADMIN_SECONDS = 20
# By then a broker that refuses us has said so.
_REFUSAL_SECONDS = 2
# Of one task, above which it waits for the broker; librdkafka's own limit is 1 GiB.
_QUEUE_KIB = 65_536
_MESSAGES_BETWEEN_POLLS = 1_000


# The headers of the message with this key; none for one that is not traced.
Headers = Callable[[bytes], list[tuple[str, str | bytes | None]] | None]
_HandOver = Callable[[bytes, bytes], None]


class _Failures:
    """What the client reports: the messages that failed.

    Not the `Delivery`, which holds the client: two that hold each other would keep a task's client, its threads and
    its connections in a Python worker that goes on to other tasks.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.count += 1
            self.first = self.first or error


class Delivery:
    """One producer of one task: hands messages over, waits when its queue is full, counts what is not acknowledged.

    The client reports on those that failed alone: one that has left the queue without a report is acknowledged. To
    hear of each would cost a third more CPU a message.
    """

    def __init__(self, settings: KafkaSettings, topic: str, traced: Headers | None = None) -> None:
        """Connect; `traced` gives a message headers. Raises `DeliveryError` when no broker answers in 15 s."""
        self.bytes = 0
        self._sent = 0
        self._failures = _Failures()
        self._topic = topic
        self._traced = traced
        self._producer = _producer(settings, self._failures)
        try:
            self._producer.list_topics(topic, timeout=_PROBE_SECONDS)
        except KafkaException as error:
            raise DeliveryError(_unanswered(settings, error)) from None

    @property
    def acked(self) -> int:
        """How many messages the broker has stored."""
        return self._sent - self._failures.count - len(self._producer)

    def send(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Queue messages; raises `DeliveryError` once any message has failed for good."""
        for start in range(0, len(keys), _MESSAGES_BETWEEN_POLLS):
            end = start + _MESSAGES_BETWEEN_POLLS
            self._queue(keys[start:end], values[start:end])
            self._poll(0)
        self.bytes += sum(map(len, keys)) + sum(map(len, values))

    def finish(self) -> None:
        """Wait until every message is reported on; raises `DeliveryError` unless all are acknowledged."""
        deadline = time.monotonic() + DELIVERY_SECONDS + _PROBE_SECONDS
        while (left := self._producer.flush(1)) and time.monotonic() < deadline:
            self._raise_failure()
        self._raise_failure()
        if left:
            raise DeliveryError(self._shortfall("no answer"))

    def _queue(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        hand_over = self._handing_over()
        try:
            for key, value in zip(keys, values, strict=True):
                try:
                    hand_over(value, key)
                except BufferError:
                    self._once_there_is_room(hand_over, value, key)
                self._sent += 1
        except KafkaException as error:
            raise DeliveryError(self._shortfall(_say(error))) from None

    def _once_there_is_room(self, hand_over: _HandOver, value: bytes, key: bytes) -> None:
        while True:
            self._poll(1)
            with suppress(BufferError):
                return hand_over(value, key)

    def _handing_over(self) -> _HandOver:
        """Give what takes value and key of a message; it runs once a row, so it looks nothing up that rows share."""
        produce = partial(self._producer.produce, self._topic)
        if (traced := self._traced) is None:
            return produce

        def with_headers(value: bytes, key: bytes) -> None:
            headers = traced(key)
            if headers:
                produce(value, key, headers=headers)
            else:
                produce(value, key)

        return with_headers

    def _poll(self, seconds: float) -> None:
        self._producer.poll(seconds)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failures.first is not None:
            raise DeliveryError(self._shortfall(self._failures.first.str()))

    def _shortfall(self, why: str) -> str:
        return (
            f"kafka: topic {self._topic} acknowledged {self.acked} of a task's {self._sent} messages: {why}. "
            "Run again when the broker answers: rows with a result are skipped, repeated messages do no harm"
        )


def check_topic(settings: KafkaSettings, topic: str) -> bool:
    """Ask the broker for the topic before anything is read; tells whether it exists.

    Raises `UnreachableError` within 20 s, and `WrongJobError` for properties that the client does not take, for a
    broker that refuses us, and for a compacted topic: there a newer prompt of an id would take the older one away
    unread.
    """
    _producer(settings)
    refusals = kafka.Refusals()
    admin = _admin(settings, refusals)
    try:
        if topic not in _topics(admin, refusals):
            return False
        policy = _config(admin, topic).get("cleanup.policy", "")
    except KafkaException as error:
        raise UnreachableError(_unanswered(settings, error)) from None
    if "compact" in policy:
        raise WrongJobError(
            f"topic {topic} is compacted (cleanup.policy={policy}): it would lose prompts; "
            "set cleanup.policy=delete, or name another topic in the job file"
        )
    return True


def make_topic(settings: KafkaSettings, topic: str, partitions: int) -> None:
    """Make the prompts topic; one that another run has just made is as good. Raises `UnreachableError`."""
    # -1 takes the broker's own default.replication.factor, which its operator has chosen.
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(topics.PROMPTS_CONFIG))
    # Held until the answer is there: a client that nobody holds is closed under its own request.
    admin = _admin(settings)
    made = admin.create_topics([wanted], operation_timeout=_ADMIN_SECONDS, request_timeout=_ADMIN_SECONDS)
    try:
        made[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise UnreachableError(f"kafka: topic {topic} could not be made: {_say(error)}") from None


def _topics(admin: AdminClient, refusals: kafka.Refusals) -> Collection[str]:
    """Name all topics; the client would try a refusal again until the time is over, so it is asked for early."""
    for seconds in (_REFUSAL_SECONDS, _ADMIN_SECONDS - _REFUSAL_SECONDS):
        try:
            found: Collection[str] = admin.list_topics(timeout=seconds).topics
        except KafkaException as error:
            admin.poll(0)
            if refusals.last:
                raise WrongJobError(f"kafka settings: {refusals.last}: {kafka.CHECK}") from None
            last = error
        else:
            return found
    raise last


def _config(admin: AdminClient, topic: str) -> Mapping[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        entries = admin.describe_configs([resource], request_timeout=_ADMIN_SECONDS)[resource].result()
    except KafkaException as error:
        # Who may write to a topic may not always read its settings; then its operator answers for them.
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return {}
        raise
    return {name: entry.value or "" for name, entry in entries.items()}


def _admin(settings: KafkaSettings, refusals: kafka.Refusals | None = None) -> AdminClient:
    heard: dict[str, Any] = {} if refusals is None else {"error_cb": refusals}
    try:
        return AdminClient({**kafka.common(settings), "log_level": "0", **heard})
    except KafkaException as error:
        raise WrongJobError(f"kafka settings: {_say(error)}") from None


def _producer(settings: KafkaSettings, report: Callable[[KafkaError | None, object], None] | None = None) -> Producer:
    ours: dict[str, Any] = {"queue.buffering.max.kbytes": str(_QUEUE_KIB), "log_level": "2"}
    if report is not None:
        ours |= {"on_delivery": report, "delivery.report.only.error": True}
    if "message.timeout.ms" not in settings.producer_conf:
        ours["delivery.timeout.ms"] = str(DELIVERY_SECONDS * 1000)
    try:
        return Producer({**ours, **kafka.producer(settings)})
    except KafkaException as error:
        raise WrongJobError(f"kafka settings, KAFKA_PRODUCER_CONF among them: {_say(error)}") from None


def _unanswered(settings: KafkaSettings, error: KafkaException) -> str:
    return (
        f"kafka: {settings.bootstrap_servers} gave no answer: {_say(error)}. "
        "Check KAFKA_BOOTSTRAP_SERVERS and that the broker is up"
    )


def _say(error: KafkaException) -> str:
    return str(error.args[0].str())
