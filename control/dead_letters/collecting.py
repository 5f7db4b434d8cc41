"""All letters of both kinds, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from control.dead_letters.database import Database
from control.dead_letters.filters import Filters
from control.dead_letters.letters import Letter, failed, unreadable
from control.dead_letters.reading import Reader
from schemas.settings import SettingsError, TopicSettings
from schemas.statuses import LetterKind
from schemas.topics import subscribes_to


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics as they are now: ids by name, for the dead letters' own and those that workers read."""

    settings: TopicSettings
    ids: Mapping[str, str]

    @staticmethod
    def look(reader: Reader, settings: TopicSettings) -> Topics:
        """Ask the brokers."""
        prompts = {topic for topic in reader.topics if subscribes_to(settings.prompts, topic)}
        return Topics(settings, reader.ids({*prompts, settings.dead_letters}))

    @property
    def names(self) -> dict[str, str]:
        """Names of the topics that workers read, by their ids."""
        return {id_: name for name, id_ in self.ids.items() if name != self.settings.dead_letters}

    def log(self, topic: str, partition: int) -> str:
        """A partition's log, as `results.log` names it."""
        return f"{self.ids.get(topic, topic)}/{partition}"

    def logs_of(self, topic: str | None) -> list[str] | None:
        """What the logs of a topic begin with: its id, or its name where a worker could not learn the id."""
        return None if topic is None else [self.ids.get(topic, topic), topic]


def letters(
    filters: Filters, topics: Topics, reader: Reader, database: Database, *, by_place: bool = False
) -> Iterator[Letter]:
    """Every letter that the filters take, unreadable ones first; both kinds as they are at the time of the call.

    Raises `SettingsError` when there is no dead-letter topic to look into.
    """
    rows: Iterable[Letter] = ()
    if LetterKind.FAILED in filters.kinds:
        found = database.failed(filters, topics.logs_of(filters.topic), by_place)
        rows = (failed(row, topics.names) for row in found)
    messages: Iterable[Letter] = ()
    if LetterKind.UNREADABLE in filters.kinds:
        messages = _unreadable(filters, topics, reader)
    return (letter for kind in (messages, rows) for letter in kind if filters.takes(letter))


def _unreadable(filters: Filters, topics: Topics, reader: Reader) -> Iterator[Letter]:
    name = topics.settings.dead_letters
    if name not in reader.topics:
        advice = "make it with `headrace topics`, or ask for --kind failed alone"
        raise SettingsError("settings", [f"DEAD_LETTER_TOPIC {name} does not exist: {advice}"])
    found = reader.letters(name, filters.since)
    return (unreadable(raw, topics.log(name, raw.place.partition)) for raw in found)
