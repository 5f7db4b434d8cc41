"""JSON out of a body, whatever a server or gateway has done to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_DECODER = json.JSONDecoder()
_DONE = "data: [DONE]"
# What the first line of an event stream may begin with, and what ends its lines: fewer than Python's `splitlines`.
_STREAM = ("data:", ":", "event:", "id:", "retry:")
_LINE_END = re.compile(r"\r\n|\r|\n")


def parse(body: bytes, content_type: str) -> Any:
    """Parse a body; an event stream becomes the one answer it spells; returns None when there is no JSON in it."""
    text = _text(body, content_type).strip()
    if text.startswith(_STREAM):
        return _assembled(_events(text))
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if text[end:].strip() in ("", _DONE) else None


def content_text(content: Any) -> str:
    """Join the text parts of a content that is a list; thoughts, images and tool calls are no text."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _text(body: bytes, content_type: str) -> str:
    _, _, charset = content_type.lower().partition("charset=")
    try:
        return body.decode(charset.split(";")[0].strip(" \"'") or "utf-8-sig").removeprefix("\ufeff")
    except (LookupError, ValueError):
        return body.decode("utf-8-sig", errors="replace")


def _events(text: str) -> Iterator[Any]:
    for line in _LINE_END.split(text):
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        try:
            yield json.loads(data)
        except (ValueError, RecursionError):
            yield None


def _assembled(events: Iterator[Any]) -> Any:
    """Put the chunks of a stream together into one completion; an unreadable or unfinished stream is None."""
    whole: dict[str, Any] = {}
    pieces: list[str] = []
    finish: Any = None
    for event in events:
        if not isinstance(event, dict):
            return None
        if event.get("error"):
            return event
        whole |= {name: event[name] for name in ("model", "usage") if event.get(name)}
        choice = _first(event)
        delta = choice.get("delta") or choice.get("message")
        pieces.append(content_text(delta.get("content")) if isinstance(delta, dict) else "")
        finish = choice.get("finish_reason") or finish
    if finish is None:
        return None
    return whole | {"choices": [{"message": {"content": "".join(pieces)}, "finish_reason": finish}]}


def _first(event: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = event.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}
