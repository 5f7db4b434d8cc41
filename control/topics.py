"""Make topics explicitly, with the settings that the promises need."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from schemas import kafka, topics
from schemas.settings import KafkaSettings, SettingsError, TopicSettings

_TIMEOUT_SECONDS = 30
_LOOK_SECONDS = 10


class KafkaUnreachableError(Exception):
    """No broker answered in time."""


class TopicRefusedError(Exception):
    """The broker would not make a topic."""


def make_topics(settings: KafkaSettings, names: TopicSettings, jobs: list[str]) -> dict[str, bool]:
    """Make the dead-letter topic and the prompts topics of these jobs; tells which were new.

    Without jobs the plain prompts topic is made. Raises `KafkaUnreachableError`, `TopicRefusedError`, and
    `SettingsError` for properties that the client does not take.
    """
    client = admin(settings)
    found = _names(client, settings, _TIMEOUT_SECONDS)
    wanted = _wanted(names, jobs)
    missing = [topic for topic in wanted if topic.topic not in found]
    made = {name: _outcome(name, future) for name, future in _create(client, missing).items()}
    return {topic.topic: made.get(topic.topic, False) for topic in wanted}


def existing_topics(settings: KafkaSettings) -> set[str]:
    """Name all topics; raises `KafkaUnreachableError` and `SettingsError`."""
    return _names(admin(settings), settings, _LOOK_SECONDS)


def _names(client: AdminClient, settings: KafkaSettings, seconds: float) -> set[str]:
    try:
        return set(client.list_topics(timeout=seconds).topics)
    except KafkaException as error:
        raise KafkaUnreachableError(f"{settings.bootstrap_servers}: {error.args[0].str()}") from None


def admin(settings: KafkaSettings) -> AdminClient:
    """A client for questions; raises `SettingsError` for properties that it does not take."""
    try:
        return AdminClient({**kafka.common(settings), "log_level": "0"})
    except (KafkaException, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise SettingsError("settings", [f"kafka: {said}: check KAFKA_SASL_* and KAFKA_SSL_*"]) from None


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
