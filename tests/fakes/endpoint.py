"""An endpoint that is a function from request to reply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.virtual_time import now
from worker.core.reply import Broken, Reply
from worker.ports import Request

Handler = Callable[[Request], "Reply | Broken | Awaitable[Reply | Broken]"]


@dataclass(frozen=True)
class Asked:
    """One call as the server saw it begin."""

    at: float
    request: Request


class FakeEndpoint:
    """Answers by a handler after `latency` seconds; remembers every call, and how many are open."""

    def __init__(self, handler: Handler, latency: float = 0.0, *, nowhere: bool = False) -> None:
        self.handler = handler
        self.latency = latency
        self.nowhere = nowhere
        self.asked: list[Asked] = []
        self.open = 0
        self.most_open = 0

    async def ask(self, request: Request) -> Reply | Broken:
        self.asked.append(Asked(now(), request))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await asyncio.sleep(self.latency)
            reply = self.handler(request)
            return reply if isinstance(reply, Reply | Broken) else await reply
        finally:
            self.open -= 1

    async def leads_nowhere(self) -> bool:
        return self.nowhere


def script(*replies: Reply | Broken) -> Handler:
    """Give these replies in turn, the last one for ever."""
    left = list(replies)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


def reply(status: int, content: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    """A JSON reply, or one with these bytes."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Reply(status, {"content-type": "application/json", **(headers or {})}, body)


def completion(text: str | None = "yes", finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """A completion's JSON."""
    return {
        "model": "served-1",
        "choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    }


def answer(text: str = "yes") -> Reply:
    """A good answer."""
    return reply(200, completion(text))


def error(status: int, code: str | None = None, headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
    """An error object with this status."""
    return reply(status, {"error": {"message": "no", "code": code, **fields}}, headers)


def text_of(request: Request) -> str:
    """The last message of a request."""
    return str(request.messages[-1]["content"])
