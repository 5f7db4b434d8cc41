"""What the brokers say of topics, groups and lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ConsumerGroupDescription,
    ResourceType,
)

from control.status.document import Lag
from control.status.lag import Lags
from control.topics import KafkaUnreachableError, admin
from schemas.settings import KafkaSettings, TopicSettings
from schemas.topics import subscribes_to

T = TypeVar("T")
_SECONDS = 10.0
_MOST_GROUPS = 200
_IDLE = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


@dataclass(frozen=True)
class Groups:
    """Whether our group is known, how many are in it, and who else reads the prompts."""

    known: bool
    members: int
    others: list[str]


@dataclass(frozen=True)
class KafkaFacts:
    """Partitions of all topics, clean-up policies of ours, the group; `untold` are questions that were refused."""

    servers: str
    partitions: Mapping[str, int]
    prompts: list[str]
    policies: Mapping[str, str] = field(default_factory=dict)
    groups: Groups | None = None
    lag: list[Lag] | None = None
    untold: list[str] = field(default_factory=list)


def look(settings: KafkaSettings, names: TopicSettings, group: str) -> KafkaFacts:
    """Ask the brokers; raises `KafkaUnreachableError` and `SettingsError`."""
    brokers = admin(settings)
    client = brokers.client
    partitions = {name: len(topic.partitions) for name, topic in brokers.topics(_SECONDS).items()}
    prompts = sorted(topic for topic in partitions if subscribes_to(names.prompts, topic))
    ours = [topic for topic in (*prompts, names.dead_letters) if topic in partitions]
    untold: list[str] = []
    return KafkaFacts(
        servers=settings.bootstrap_servers,
        partitions=partitions,
        prompts=prompts,
        policies=_ask("settings of topics", lambda: _policies(client, ours), untold) or {},
        groups=_ask("consumer groups", lambda: _groups(client, group, set(prompts)), untold),
        lag=_ask(f"offsets of group {group}", lambda: Lags(settings, group).of(prompts), untold),
        untold=untold,
    )


def _ask(what: str, question: Callable[[], T], untold: list[str]) -> T | None:
    try:
        return question()
    except KafkaException as error:
        untold.append(f"{what}: {error.args[0].str()}")
    except KafkaUnreachableError as error:
        untold.append(f"{what}: {error}")
    return None


def _policies(client: AdminClient, topics: Iterable[str]) -> dict[str, str]:
    asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    found = client.describe_configs(asked, request_timeout=_SECONDS) if asked else {}
    return {resource.name: str(future.result()["cleanup.policy"].value) for resource, future in found.items()}


def _groups(client: AdminClient, group: str, prompts: set[str]) -> Groups:
    listed = client.list_consumer_groups(request_timeout=_SECONDS).result().valid
    live = [found.group_id for found in listed if found.state not in _IDLE and found.group_id != group]
    known = any(found.group_id == group for found in listed)
    asked = [*([group] if known else []), *live[:_MOST_GROUPS]]
    futures = client.describe_consumer_groups(asked, request_timeout=_SECONDS) if asked else {}
    told = {name: found for name, future in futures.items() if not future.exception() for found in [future.result()]}
    return Groups(
        known=known,
        members=len(told[group].members) if group in told else 0,
        others=sorted(name for name, found in told.items() if name != group and _reads(found, prompts)),
    )


def _reads(group: ConsumerGroupDescription, prompts: set[str]) -> bool:
    assigned = (member.assignment for member in group.members)
    return any(place.topic in prompts for found in assigned if found for place in found.topic_partitions)
