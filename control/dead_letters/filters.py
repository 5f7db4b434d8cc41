"""Which letters are meant: what the command line says, checked whole, and the question each letter is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from control.dead_letters.letters import Letter
from schemas import topics
from schemas.job import duration
from schemas.message import id_problem
from schemas.settings import SettingsError, TopicSettings
from schemas.statuses import DeadLetter, LetterKind, Reason


@dataclass(frozen=True, slots=True)
class Filters:
    """What a letter must be; None and an empty set take everything."""

    kinds: frozenset[LetterKind] = frozenset(LetterKind)
    job: str | None = None
    id: str | None = None
    reasons: frozenset[str] = frozenset()
    topic: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def takes(self, letter: Letter) -> bool:
        """Tell whether a letter is meant; `since` is the first instant that is, `until` the first that is not."""
        return (
            letter.kind in self.kinds
            and self.job in (None, letter.job)
            and self._names(letter)
            and (not self.reasons or letter.reason in self.reasons)
            and (self.topic is None or (letter.source is not None and letter.source.topic == self.topic))
            and self._in_time(letter.at)
        )

    def _names(self, letter: Letter) -> bool:
        """A message whose key differs from its id is found under both."""
        key = letter.raw.key if letter.raw else None
        return self.id in (None, letter.id) or (key is not None and str(self.id).encode() == key)

    def _in_time(self, at: datetime | None) -> bool:
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


@dataclass(frozen=True, slots=True)
class Asked:
    """The same, as text of the command line."""

    kind: LetterKind | None = None
    job: str | None = None
    id: str | None = None
    reason: Sequence[str] = ()
    topic: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int | None = None


def read_filters(asked: Asked, names: TopicSettings | None, now: datetime) -> Filters:
    """Check what was asked; raises `SettingsError` with every problem at once.

    Times are ISO 8601, UTC where they name no zone, or how long ago: `90m`, `12h`, `2d`.
    """
    kinds = frozenset(LetterKind) if asked.kind is None else frozenset({asked.kind})
    problems = [*_problems(asked, kinds, names)]
    since, until = (_time(name, getattr(asked, name), now, problems) for name in ("since", "until"))
    if since and until and since >= until:
        problems.append("--since is not before --until")
    if problems:
        raise SettingsError("options", problems)
    return Filters(kinds, asked.job, asked.id, frozenset(asked.reason), asked.topic, since, until)


def _problems(asked: Asked, kinds: frozenset[LetterKind], names: TopicSettings | None) -> Iterator[str]:
    known = {
        *(Reason if LetterKind.FAILED in kinds else ()),
        *(DeadLetter if LetterKind.UNREADABLE in kinds else ()),
    }
    for reason in sorted(set(asked.reason) - known):
        yield f"--reason {reason!r} is none of {', '.join(sorted(known))}"
    if asked.id is not None and (problem := id_problem(asked.id)):
        yield f"--id {problem}"
    if asked.job is not None and not asked.job.strip():
        yield "--job is empty"
    if asked.topic is not None and not _carries_prompts(asked.topic, names):
        yield f"--topic {asked.topic!r} is no topic that PROMPTS_TOPIC subscribes to: it is where messages came from"
    if asked.limit is not None and asked.limit < 1:
        yield "--limit must be 1 or more"


def _carries_prompts(topic: str, names: TopicSettings | None) -> bool:
    return topics.is_legal(topic) and (names is None or topics.subscribes_to(names.prompts, topic))


def _time(name: str, text: str | None, now: datetime, problems: list[str]) -> datetime | None:
    if text is None:
        return None
    try:
        ago = duration(text)
        if isinstance(ago, timedelta):
            return now - ago
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        problems.append(f"--{name} {text!r} is neither a time like 2026-01-31T08:00 nor an age like 90m, 12h, 2d")
        return None
