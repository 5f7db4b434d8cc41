"""A dead letter, whichever of the two kinds: what it is, why it died, where it lies and where it came from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas import topics
from schemas.dead_letters import ERRORS_PREFIX, REPLAY_OF, REPLAY_ROOT
from schemas.message import DEFAULT_JOB
from schemas.statuses import LetterKind

Headers = tuple[tuple[str, bytes | None], ...]
_NUMBERS = re.compile(r"\d{1,10}/\d{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message lies; written `topic/partition/offset`."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @staticmethod
    def parse(text: str) -> Place | None:
        """Read the written form; None for anything else."""
        topic, _, numbers = text.partition("/")
        if not topics.is_legal(topic) or not _NUMBERS.fullmatch(numbers):
            return None
        partition, offset = map(int, numbers.split("/"))
        return Place(topic, partition, offset) if partition < 2**31 and offset < 2**63 else None


@dataclass(frozen=True, slots=True, repr=False)
class Raw:
    """A message as Kafka holds it."""

    place: Place
    key: bytes | None
    value: bytes | None
    headers: Headers
    at: datetime | None


@dataclass(frozen=True, slots=True, repr=False)
class Letter:
    """One dead letter; its repr shows nothing of it.

    `log` and `offset` say where it lies in the words of `results.log`, and `ref` in those of people: an unreadable
    message in the dead-letter topic, a failed row at the message that it was asked by. `source` is where the message
    came from: where a replay goes. `raw` is there for an unreadable message, `fingerprint` for a failed row.
    """

    kind: LetterKind
    ref: str
    log: str | None
    offset: int | None
    at: datetime | None
    reason: str | None
    job: str | None
    id: str | None
    source: Place | None
    size: int = 0
    raw: Raw | None = None
    fingerprint: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What its replays are recorded under."""
        return self.log or "", -1 if self.offset is None else self.offset

    @property
    def of(self) -> str | None:
        """The letter that this unreadable message was a replay of, in its own words."""
        return _place(self.raw, REPLAY_OF) if self.raw else None

    @property
    def root(self) -> str:
        """The first letter of its line, in its own words; itself if it was no replay."""
        return root_of(self.raw, self.ref) if self.raw else self.ref


def unreadable(raw: Raw, log: str) -> Letter:
    """See a message of the dead-letter topic as a letter; whatever its bytes and headers are, there is one."""
    source = _source(raw.headers)
    job, id_ = _names(raw, source)
    return Letter(
        kind=LetterKind.UNREADABLE,
        ref=str(raw.place),
        log=log,
        offset=raw.place.offset,
        at=raw.at,
        reason=header(raw.headers, f"{ERRORS_PREFIX}class.name"),
        job=job,
        id=id_,
        source=source,
        size=len(raw.value or b""),
        raw=raw,
    )


def failed(row: Mapping[str, Any], topic_names: Mapping[str, str]) -> Letter:
    """See a failed row of `results` as a letter; `topic_names` gives a topic's name by its id."""
    place = _place_of_row(row["log"], row["log_offset"], topic_names)
    return Letter(
        kind=LetterKind.FAILED,
        ref=str(place) if place else f"{row['log'] or '?'}/{'?' if row['log_offset'] is None else row['log_offset']}",
        log=row["log"],
        offset=row["log_offset"],
        at=row["completed_at"],
        reason=row["reason"],
        job=row["job"],
        id=row["id"],
        source=place,
        size=row["prompt_length"] or 0,
        fingerprint=row["fingerprint"],
    )


def header(headers: Headers, name: str) -> str | None:
    """The last header of a name: what stands before it the message may have brought along."""
    found = [value for key, value in headers if key == name and value is not None]
    return found[-1].decode("utf8", "replace") if found else None


def root_of(raw: Raw, ref: str) -> str:
    """The first letter of the line that a message stands in; `ref` if it names none."""
    return _place(raw, REPLAY_ROOT) or ref


def _place(raw: Raw, name: str) -> str | None:
    text = header(raw.headers, name)
    return text if text is not None and Place.parse(text) else None


def _source(headers: Headers) -> Place | None:
    parts = [header(headers, f"{ERRORS_PREFIX}{name}") for name in ("topic", "partition", "offset")]
    return None if None in parts else Place.parse("/".join(map(str, parts)))


def _place_of_row(log: str | None, offset: int | None, topic_names: Mapping[str, str]) -> Place | None:
    if log is None or offset is None:
        return None
    topic, _, partition = log.rpartition("/")
    # Where a worker could not learn a topic's id, the log is named by the topic.
    name = topic_names.get(topic, topic if topic in topic_names.values() else None)
    return Place.parse(f"{name}/{partition}/{offset}") if name else None


def _names(raw: Raw, source: Place | None) -> tuple[str | None, str | None]:
    """Job and id as far as they can be told: by the body, else by the topic and the key."""
    id_ = raw.key.decode("utf8", "backslashreplace") if raw.key else None
    job = source.topic.removeprefix(f"{topics.PROMPTS_PREFIX}.") if source else None
    job = None if source and job == source.topic else job
    body = _body(raw.value)
    if body is None:
        return job, id_
    named, own = body.get("job"), body.get("id")
    return named if isinstance(named, str) else DEFAULT_JOB, own if isinstance(own, str) else id_


def _body(value: bytes | None) -> dict[str, Any] | None:
    try:
        body = json.loads((value or b"").decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
