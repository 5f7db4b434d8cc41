"""What the endpoint answers: a pure function of the messages, the model and the response format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from simulator.schema_answers import fill

Messages = Sequence[Mapping[str, Any]]

ECHO_CHARS = 2000
_CHARS_PER_TOKEN = 4


def answer(messages: Messages, model: str, response_format: Mapping[str, Any] | None = None) -> str:
    """The answer to a chat: the model, a digest of the whole chat and the head of its last message.

    With a `response_format` of type `json_object` or `json_schema` it is JSON text, in the latter case valid
    against the schema. Raises `schema_answers.UnsupportedSchemaError` for a schema that cannot be filled.
    """
    digest = chat_digest(messages, model)
    kind = response_format.get("type") if response_format else None
    if response_format and kind == "json_schema":
        return _json(fill(_schema_of(response_format), digest))
    last = content_text(messages[-1].get("content")) if messages else ""
    said = f"{model} [{digest[:16]}] {last[:ECHO_CHARS]}"
    return _json({"answer": said}) if kind == "json_object" else said


def chat_digest(messages: Messages, model: str) -> str:
    """SHA-256 hex of the model and of role and content of each message in order."""
    parts = [model]
    for message in messages:
        parts += (str(message.get("role")), content_text(message.get("content")))
    return sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def prompt_text(messages: Messages) -> str:
    """The text of all messages, one after the other."""
    if len(messages) == 1:
        return content_text(messages[0].get("content"))
    return "\n".join(content_text(message.get("content")) for message in messages)


def content_text(content: object) -> str:
    """A message's content as text; parts and other JSON become compact JSON."""
    if isinstance(content, str):
        return content
    return "" if content is None else _json(content)


def token_count(text: str) -> int:
    """About how many tokens a text has: one for each four characters."""
    return -(-len(text) // _CHARS_PER_TOKEN)


def truncated(text: str, max_tokens: int | None) -> tuple[str, bool]:
    """The text cut to `max_tokens`, and whether it had to be cut."""
    most = None if max_tokens is None else max_tokens * _CHARS_PER_TOKEN
    if most is None or len(text) <= most:
        return text, False
    return text[:most], True


def _schema_of(response_format: Mapping[str, Any]) -> Any:
    inner = response_format.get("json_schema")
    return inner.get("schema", {}) if isinstance(inner, Mapping) else {}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
