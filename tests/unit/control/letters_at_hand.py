"""Letters for the tests: an unreadable one and a failed one, each with what differs from the usual."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from control.dead_letters.letters import Letter, Place, Raw, failed, unreadable
from schemas.fingerprint import fingerprint

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TOPIC = "headrace.prompts.reviews"
TOPIC_ID = "AAAAAAAAAAEAAAAAAAAAAg"
PLACE = Place("headrace.dead-letters", 0, 5)
SOURCE = {"topic": TOPIC, "partition": "2", "offset": "17", "class.name": "unknown_version"}


def value(**fields: Any) -> bytes:
    """The value of a readable message."""
    return json.dumps({"id": "r-1", "prompt": "Why?", "job": "reviews", **fields}).encode()


def mark(prompt: str = "Why?") -> str:
    """The fingerprint of a plain prompt."""
    return fingerprint(None, [{"role": "user", "content": prompt}])


def raw(
    body: bytes | None = None,
    key: bytes | None = b"r-1",
    errors: Mapping[str, str] = SOURCE,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    place: Place = PLACE,
) -> Raw:
    """A message of the dead-letter topic."""
    told = tuple((f"__connect.errors.{name}", text.encode()) for name, text in errors.items())
    return Raw(place, key, value() if body is None else body, (*headers, *told), NOON)


def unread(**changed: Any) -> Letter:
    """An unreadable message."""
    return unreadable(raw(**changed), "DLQ/0")


def row(**changed: Any) -> Letter:
    """A failed row."""
    usual = {
        "job": "reviews",
        "id": "r-1",
        "reason": "timeout",
        "fingerprint": mark(),
        "log": f"{TOPIC_ID}/2",
        "log_offset": 17,
        "prompt_length": 4,
        "completed_at": NOON,
    }
    return failed({**usual, **changed}, {TOPIC_ID: TOPIC})
