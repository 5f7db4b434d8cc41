"""What is answered: from a rule's action and a call to status, headers and body."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from simulator import errors
from simulator.answers import answer, chat_digest, content_text, token_count, truncated
from simulator.calls import Call
from simulator.schema_answers import UnsupportedSchemaError
from simulator.script import UNSET, Action

Headers = list[tuple[str, str]]
JSON = "application/json"
_BLOCK = 1 << 20


@dataclass(slots=True)
class Reply:
    """A response before it is framed. A body too large to hold is `stream`, of `length` bytes if known."""

    status: int
    body: bytes = b""
    headers: Headers = field(default_factory=list)
    content_type: str = JSON
    stream: Iterator[bytes] | None = None
    length: int | None = None


def json_reply(status: int, value: object, headers: Headers | None = None) -> Reply:
    """A reply whose body is JSON."""
    return Reply(status, json_bytes(value), headers or [])


def json_bytes(value: object) -> bytes:
    """Compact JSON as UTF-8; text with half a surrogate pair comes as escapes instead."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def reply_to(call: Call, action: Action, created: int) -> Reply:
    """The reply of an action, with everything that is not about its transport."""
    reply = _bare_reply(call, action, created)
    if action.append is not None:
        reply.body += action.append.encode("utf-8", "surrogatepass")
    if action.gzip:
        reply.body = gzip.compress(reply.body, 6, mtime=0)
        reply.headers.append(("Content-Encoding", "gzip"))
    if action.content_type is not None:
        reply.content_type = action.content_type
    return reply


def _bare_reply(call: Call, action: Action, created: int) -> Reply:
    status = action.status or (307 if action.redirect is not None else 200)
    if action.redirect is not None:
        return Reply(status, b"", [("Location", action.redirect)])
    if action.body is not None:
        return Reply(status, action.body)
    if action.json is not UNSET:
        return json_reply(status, action.json)
    if action.error is not None or status >= 400:
        return json_reply(status, errors.body(status, action.error or {}))
    return _answer_reply(call, action, status, created)


def _answer_reply(call: Call, action: Action, status: int, created: int) -> Reply:
    try:
        whole = completion(call, action, created)
    except UnsupportedSchemaError as error:
        return json_reply(400, errors.invalid(f"Invalid schema for response_format: {error}", "response_format"))
    if action.big_body is not None:
        return _big_reply(whole, status, action.big_body)
    if action.gzip_bomb is not None:
        stream = _deflated(_padded(whole, action.gzip_bomb))
        return Reply(status, headers=[("Content-Encoding", "gzip")], stream=stream)
    if action.event_stream or call.params.get("stream") is True:
        return Reply(status, event_stream(whole), content_type="text/event-stream; charset=utf-8")
    return json_reply(status, whole)


def completion(call: Call, action: Action, created: int) -> dict[str, Any]:
    """The chat.completion object; raises `UnsupportedSchemaError`."""
    message, finish_reason = _message(call, action)
    whole = {
        "id": f"chatcmpl-{chat_digest(call.messages, call.model)[:24]}",
        "object": "chat.completion",
        "created": created,
        "model": call.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": finish_reason if action.finish_reason is UNSET else action.finish_reason,
            }
        ],
        "usage": _usage(call, message) if action.usage is UNSET else action.usage,
    }
    return {name: value for name, value in whole.items() if name not in action.omit} if action.omit else whole


def _message(call: Call, action: Action) -> tuple[dict[str, Any], str]:
    if action.message is not None:
        return action.message, "stop"
    text, cut = _content(call, action), False
    if action.max_tokens == "truncate":
        text, cut = truncated(text, call.max_tokens)
    return {"role": "assistant", "content": text, "refusal": None}, "length" if cut else "stop"


def _content(call: Call, action: Action) -> str:
    if action.content is not None:
        return action.content
    text = answer(call.messages, call.model, call.params.get("response_format"))
    if action.content_chars is None:
        return text
    return (text * (action.content_chars // len(text) + 1))[: action.content_chars]


def _usage(call: Call, message: dict[str, Any]) -> dict[str, int]:
    prompt = token_count(call.prompt)
    said = token_count(content_text(message.get("content")))
    return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}


def event_stream(whole: dict[str, Any]) -> bytes:
    """The same completion as server-sent events, in two deltas and the end mark."""
    base = {name: whole.get(name) for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choices = whole.get("choices") or [{"message": {}, "finish_reason": None}]
    first = {"index": 0, "delta": choices[0]["message"], "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": choices[0]["finish_reason"]}
    events = [json_bytes(base | {"choices": [choice]}) for choice in (first, last)]
    return b"".join(b"data: " + event + b"\n\n" for event in [*events, b"[DONE]"])


def _big_reply(whole: dict[str, Any], status: int, size: int) -> Reply:
    start, end = _around_padding(whole)
    padding = max(0, size - len(start) - len(end))
    stream = _padded_pieces(start, padding, end)
    return Reply(status, stream=stream, length=len(start) + padding + len(end))


def _padded(whole: dict[str, Any], size: int) -> Iterator[bytes]:
    start, end = _around_padding(whole)
    return _padded_pieces(start, max(0, size - len(start) - len(end)), end)


def _around_padding(whole: dict[str, Any]) -> tuple[bytes, bytes]:
    start, end = json_bytes(whole | {"padding": ""})[:-2], b'"}'
    return start, end


def _padded_pieces(start: bytes, padding: int, end: bytes) -> Iterator[bytes]:
    block = b"x" * _BLOCK
    yield start
    for at in range(0, padding, _BLOCK):
        yield block[: min(_BLOCK, padding - at)]
    yield end


def _deflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    for piece in pieces:
        yield packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()
