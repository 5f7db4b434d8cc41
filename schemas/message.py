"""The message on the prompts topic: key = id, value = UTF-8 JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas.fingerprint import fingerprint
from schemas.statuses import DeadLetter
from schemas.text import clean_json, clean_text

VERSION = 1
DEFAULT_JOB = "default"
MAX_ID_BYTES = 512
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True, repr=False)
class Prompt:
    """One readable message; its repr shows the key only, since prompts never reach a log."""

    job: str
    id: str
    messages: tuple[Mapping[str, Any], ...]
    fingerprint: str
    run: str | None = None
    model: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    response_format: Mapping[str, Any] | None = None
    published_at: datetime | None = None
    sanitised: bool = False

    def __repr__(self) -> str:
        return f"Prompt(job={self.job!r}, id={self.id[:128]!r})"

    @property
    def length(self) -> int:
        """Characters of text in all messages."""
        return sum(len(m["content"]) for m in self.messages if isinstance(m["content"], str))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that ends in the dead-letter topic, and why; `where` never holds its content."""

    reason: DeadLetter
    where: str


class _UnreadableError(Exception):
    """Carries an `Unreadable` out of the nested readers below; never leaves this module."""

    def __init__(self, reason: DeadLetter, where: str) -> None:
        self.value = Unreadable(reason, where)


def id_problem(id_: str) -> str | None:
    """Say what is wrong with an id, or None: 1 to 512 UTF-8 bytes, no surrounding white space, no U+0000."""
    if not id_:
        return "is empty"
    if id_ != id_.strip():
        return "has surrounding white space"
    if clean_text(id_)[1]:
        return "holds U+0000 or a broken surrogate pair"
    if len(id_.encode()) > MAX_ID_BYTES:
        return f"is longer than {MAX_ID_BYTES} bytes"
    return None


def decode(key: bytes | None, value: bytes) -> Prompt | Unreadable:
    """Read one message; whatever its bytes are, the answer is a value, never an exception."""
    try:
        return _prompt(key, _body(value))
    except _UnreadableError as error:
        return error.value
    except RecursionError:
        return Unreadable(DeadLetter.NOT_JSON, "value is nested too deeply")


def _body(value: bytes) -> dict[str, Any]:
    if value[:1] == b"\x00":
        raise _UnreadableError(DeadLetter.FRAMED, "first byte is 0x00: turn Schema Registry framing off")
    try:
        body = json.loads(value.decode("utf-8-sig"))
    except ValueError:
        raise _UnreadableError(DeadLetter.NOT_JSON, "value") from None
    if not isinstance(body, dict):
        raise _UnreadableError(DeadLetter.NOT_JSON, "value is not an object")
    if body.get("v") not in (None, VERSION):
        raise _UnreadableError(DeadLetter.VERSION, "v")
    return body


def _prompt(key: bytes | None, body: dict[str, Any]) -> Prompt:
    id_ = _id(key, body)
    job = _text(body, "job") or DEFAULT_JOB
    if not _JOB.fullmatch(job):
        raise _UnreadableError(DeadLetter.INVALID_FIELD, "job")
    messages, changed = _messages(body)
    model = _text(body, "model")
    params, params_changed = _object(body, "params")
    response_format, format_changed = _object(body, "response_format")
    content = fingerprint(model, messages, params, response_format)
    if _text(body, "fingerprint") not in (None, content):
        # Whoever changed one of the two on the way has made another request of it.
        raise _UnreadableError(DeadLetter.INVALID_FIELD, "fingerprint differs from the content")
    return Prompt(
        job=job,
        id=id_,
        messages=messages,
        fingerprint=content,
        run=_text(body, "run"),
        model=model,
        params=params or {},
        response_format=response_format,
        published_at=_time(body),
        sanitised=changed or params_changed or format_changed,
    )


def _id(key: bytes | None, body: Mapping[str, Any]) -> str:
    id_ = body.get("id")
    if id_ is None:
        raise _UnreadableError(DeadLetter.NO_ID, "id")
    if not isinstance(id_, str) or (problem := id_problem(id_)):
        raise _UnreadableError(
            DeadLetter.INVALID_ID, "id is not text" if not isinstance(id_, str) else f"id {problem}"
        )
    if key and key != id_.encode():
        raise _UnreadableError(DeadLetter.KEY_MISMATCH, "key differs from id")
    return id_


def _messages(body: Mapping[str, Any]) -> tuple[tuple[Mapping[str, Any], ...], bool]:
    prompt, messages = body.get("prompt"), body.get("messages")
    if (prompt is None) == (messages is None):
        raise _UnreadableError(DeadLetter.NO_PROMPT, "exactly one of prompt and messages")
    if prompt is not None:
        if not isinstance(prompt, str) or not prompt.strip():
            raise _UnreadableError(DeadLetter.NO_PROMPT, "prompt is not text, or blank")
        text, changed = clean_text(prompt)
        return ({"role": "user", "content": text},), changed
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise _UnreadableError(DeadLetter.INVALID_MESSAGES, "messages: known roles and non-empty contents")
    cleaned, changed = clean_json(messages)
    return tuple(cleaned), changed


def _is_message(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        return False
    content = message.get("content")
    return bool(content.strip()) if isinstance(content, str) else isinstance(content, list) and bool(content)


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value or clean_text(value)[1]:
        raise _UnreadableError(DeadLetter.INVALID_FIELD, name)
    return value


def _object(body: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any] | None, bool]:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise _UnreadableError(DeadLetter.INVALID_FIELD, name)
    return clean_json(value) if value else (None, False)


def _time(body: Mapping[str, Any]) -> datetime | None:
    text = _text(body, "published_at")
    try:
        return datetime.fromisoformat(text).astimezone() if text else None
    except (ValueError, OverflowError):
        raise _UnreadableError(DeadLetter.INVALID_FIELD, "published_at") from None
