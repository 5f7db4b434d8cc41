"""Make topics explicitly, with the settings that the promises need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata  # type: ignore[attr-defined]

from schemas import kafka, topics
from schemas.settings import KafkaSettings, SettingsError, TopicSettings

_TIMEOUT_SECONDS = 30
_LOOK_SECONDS = 10
# By then a broker that refuses us has said so.
_REFUSAL_SECONDS = 2


class KafkaUnreachableError(Exception):
    """No broker answered in time."""


class TopicRefusedError(Exception):
    """The broker would not make a topic."""


def make_topics(settings: KafkaSettings, names: TopicSettings, jobs: list[str]) -> dict[str, bool]:
    """Make the dead-letter topic and the prompts topics of these jobs; tells which were new.

    Without jobs the plain prompts topic is made. Raises `KafkaUnreachableError`, `TopicRefusedError`, and
    `SettingsError` for properties that the client does not take.
    """
    brokers = admin(settings)
    found = brokers.topics(_TIMEOUT_SECONDS)
    wanted = _wanted(names, jobs)
    missing = [topic for topic in wanted if topic.topic not in found]
    made = {name: _outcome(name, future) for name, future in _create(brokers.client, missing).items()}
    return {topic.topic: made.get(topic.topic, False) for topic in wanted}


def existing_topics(settings: KafkaSettings) -> set[str]:
    """Name all topics; raises `KafkaUnreachableError` and `SettingsError`."""
    return set(admin(settings).topics(_LOOK_SECONDS))


@dataclass(frozen=True)
class Brokers:
    """A client for questions, and what it was refused for."""

    client: AdminClient
    servers: str
    refusals: kafka.Refusals

    def topics(self, seconds: float) -> Mapping[str, TopicMetadata]:
        """All topics by name.

        Raises `KafkaUnreachableError`, and within seconds `SettingsError` where the brokers do not take us for who we
        are, or are not those that we trust: the client itself would try again for ever.
        """
        try:
            return self._listed(min(_REFUSAL_SECONDS, seconds))
        except KafkaException:
            self._raise_refusal()
        try:
            return self._listed(seconds - _REFUSAL_SECONDS)
        except KafkaException as error:
            self._raise_refusal()
            raise KafkaUnreachableError(f"{self.servers}: {error.args[0].str()}") from None

    def _listed(self, seconds: float) -> Mapping[str, TopicMetadata]:
        found: Mapping[str, TopicMetadata] = self.client.list_topics(timeout=seconds).topics
        return found

    def _raise_refusal(self) -> None:
        self.client.poll(0)
        if self.refusals.last:
            raise SettingsError("settings", [f"kafka: {self.refusals.last}: {kafka.CHECK}"]) from None


def admin(settings: KafkaSettings) -> Brokers:
    """Make a client for questions; raises `SettingsError` for properties that it does not take."""
    refusals = kafka.Refusals()
    try:
        wanted: dict[str, Any] = {**kafka.common(settings), "log_level": "0", "error_cb": refusals}
        client = AdminClient(wanted)
    except (KafkaException, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise SettingsError("settings", [f"kafka: {said}: {kafka.CHECK}"]) from None
    return Brokers(client, settings.bootstrap_servers, refusals)


def _wanted(names: TopicSettings, jobs: list[str]) -> list[NewTopic]:
    plain = topics.PROMPTS_PREFIX if names.prompts.startswith("^") else names.prompts
    prompts = [topics.prompts_topic(job) for job in jobs] or [plain]
    return [
        _topic(names.dead_letters, 1, topics.DEAD_LETTERS_CONFIG),
        *(_topic(name, names.partitions, topics.PROMPTS_CONFIG) for name in prompts),
    ]


def _topic(name: str, partitions: int, config: Mapping[str, str]) -> NewTopic:
    # -1 takes the broker's own default.replication.factor, which its operator has chosen.
    return NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config))


def _create(client: AdminClient, missing: list[NewTopic]) -> Mapping[str, object]:
    return dict(client.create_topics(missing, operation_timeout=_TIMEOUT_SECONDS)) if missing else {}


def _outcome(name: str, future: object) -> bool:
    try:
        future.result()  # type: ignore[attr-defined]
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TopicRefusedError(f"topic {name}: {error.args[0].str()}") from None
        return False
    return True
