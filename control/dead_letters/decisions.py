"""What becomes of a letter in a replay: pure decisions, each with its word."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from control.dead_letters.letters import Headers, Letter, Place, Raw, root_of
from schemas.dead_letters import ERRORS_PREFIX, OMITTED, REPLAY_OF, REPLAY_ROOT
from schemas.message import Prompt, Unreadable, decode
from schemas.statuses import LetterKind, Status
from schemas.topics import subscribes_to


class Why(StrEnum):
    """Why a letter is left alone."""

    REPLAYED = "replayed_before"
    NO_SOURCE = "no_source"
    FOREIGN = "foreign_topic"
    NO_TOPIC = "topic_missing"
    RECREATED = "topic_recreated"
    EXPIRED = "message_expired"
    OMITTED = "value_omitted"
    UNREADABLE = "still_unreadable"
    CHANGED = "fingerprint_differs"
    ANSWERED = "answered"
    CLAIMED = "being_asked"
    FAILED_SINCE = "failed_since"
    SUPERSEDED = "superseded"
    WAITING = "waits_unread"


MEANINGS: Mapping[Why, str] = {
    Why.REPLAYED: "was replayed before; --again sends it anyway",
    Why.NO_SOURCE: "does not say which topic it came from",
    Why.FOREIGN: "came from a topic that PROMPTS_TOPIC does not subscribe to",
    Why.NO_TOPIC: "its topic does not exist: make it with `headrace topics`",
    Why.RECREATED: "its message is gone: the topic was made again since, or is none that PROMPTS_TOPIC subscribes to",
    Why.EXPIRED: "its message has expired from the topic: publish it again from the table",
    Why.OMITTED: "its value was too large for the dead-letter topic",
    Why.UNREADABLE: "cannot be read by this version either",
    Why.CHANGED: "its message is not the request that the row was asked with",
    Why.ANSWERED: "has its answer",
    Why.CLAIMED: "is being asked now",
    Why.FAILED_SINCE: "stands as a failed row by now, whose letter is another",
    Why.SUPERSEDED: "a newer version of the row has come since",
    Why.WAITING: "a later message of the row waits unread in the topic",
}


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A letter that is not sent, and why."""

    why: Why
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What `results` holds for a row at this moment."""

    status: str
    fingerprint: str | None
    log: str | None
    log_offset: int | None
    published_at: datetime | None


def target(letter: Letter, subscription: str, topics: frozenset[str]) -> str | LeftAlone:
    """The topic that a letter goes back to: only one of those that workers read, whatever its headers say."""
    if letter.source is None:
        lost = letter.kind is LetterKind.FAILED and letter.log is not None
        return LeftAlone(Why.RECREATED if lost else Why.NO_SOURCE)
    if not subscribes_to(subscription, letter.source.topic):
        return LeftAlone(Why.FOREIGN)
    return letter.source.topic if letter.source.topic in topics else LeftAlone(Why.NO_TOPIC)


def read(letter: Letter, raw: Raw | None) -> Prompt | LeftAlone:
    """Validate the message of a letter anew; a failed row's must be the very request that the row names."""
    if raw is None:
        return LeftAlone(Why.EXPIRED)
    if raw.value is None:
        omitted = any(name == OMITTED for name, _ in raw.headers)
        return LeftAlone(Why.OMITTED if omitted else Why.UNREADABLE)
    prompt = decode(raw.key, raw.value)
    if isinstance(prompt, Unreadable):
        return LeftAlone(Why.UNREADABLE, prompt.reason)
    if letter.kind is LetterKind.FAILED and (
        (prompt.job, prompt.id, prompt.fingerprint) != (letter.job, letter.id, letter.fingerprint)
    ):
        return LeftAlone(Why.CHANGED)
    return prompt


def judge(letter: Letter, prompt: Prompt, standing: Standing | None, source_log: str) -> LeftAlone | None:
    """Say why a readable letter must not be sent, as its row stands now, or None.

    Published again, a letter is the latest version of its row, so one that a newer version has overtaken would
    bring the older answer back. `source_log` names the log that the
    letter's message came from.
    """
    if standing is None:
        return LeftAlone(Why.SUPERSEDED, "the row is gone") if letter.kind is LetterKind.FAILED else None
    if letter.kind is LetterKind.UNREADABLE and standing.fingerprint != prompt.fingerprint:
        return LeftAlone(Why.SUPERSEDED) if _is_newer(standing, letter, prompt, source_log) else None
    if standing.fingerprint != prompt.fingerprint:
        return LeftAlone(Why.SUPERSEDED)
    if standing.status == Status.FAILED:
        same = (letter.kind, letter.log, letter.offset) == (LetterKind.FAILED, standing.log, standing.log_offset)
        return None if same else LeftAlone(Why.FAILED_SINCE)
    return LeftAlone(Why.ANSWERED if standing.status == Status.SUCCEEDED else Why.CLAIMED)


def waiting(sources: Mapping[tuple[str, str], Place | None], unread: Iterable[Raw]) -> set[tuple[str, str]]:
    """Of these rows, each with the place of its letter's message, those that a later unread message is about."""
    keys = {id_.encode() for _, id_ in sources}
    found = set()
    for raw in unread:
        prompt = decode(raw.key, raw.value or b"") if not raw.key or raw.key in keys else None
        if isinstance(prompt, Prompt) and (prompt.job, prompt.id) in sources:
            row = prompt.job, prompt.id
            found |= set() if _is_before(raw.place, sources[row]) else {row}
    return found


def asked_anew(value: bytes, run: str, now: datetime) -> bytes:
    """The message of a failed row as one of another run: a worker asks a failed row again for nothing less."""
    at = now.astimezone(UTC).isoformat(timespec="milliseconds")
    body = {**json.loads(value.decode("utf-8-sig")), "run": run, "published_at": at}
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Half a surrogate pair, which only an escape can carry.
        return json.dumps(body, separators=(",", ":")).encode()


def linked(letter: Letter, raw: Raw) -> tuple[Headers, str]:
    """The headers of a replay, the original ones without those of its death, and the root of its line."""
    root = root_of(raw, letter.ref)
    kept = tuple((name, value) for name, value in raw.headers if not _is_ours(name))
    return (*kept, (REPLAY_OF, letter.ref.encode()), (REPLAY_ROOT, root.encode())), root


def _is_ours(name: str) -> bool:
    return name.startswith(ERRORS_PREFIX) or name in (OMITTED, REPLAY_OF, REPLAY_ROOT)


def _is_before(place: Place, source: Place | None) -> bool:
    if source is None or (place.topic, place.partition) != (source.topic, source.partition):
        return False
    return place.offset <= source.offset


def _is_newer(standing: Standing, letter: Letter, prompt: Prompt, source_log: str) -> bool:
    """In doubt the row that stands is the newer: times are asked as well, since a topic may be made again."""
    published = prompt.published_at or letter.at
    if standing.published_at is None or published is None or standing.published_at >= published:
        return True
    ahead = letter.source is not None and (standing.log_offset or 0) > letter.source.offset
    return standing.log == source_log and ahead
