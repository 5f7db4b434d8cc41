"""One chat call as it arrived: who asks, what is asked, and what is wrong with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

from simulator import draws
from simulator.answers import prompt_text, token_count
from simulator.limits import Cost
from simulator.wire import Request

_NO_MESSAGES: list[dict[str, Any]] = []


@dataclass(slots=True)
class Call:
    """A chat call; `attempt` is what its header says, `number` counts the calls of its id from 1."""

    id: str
    attempt: int | None
    params: dict[str, Any]
    prompt: str
    body: bytes
    problem: str | None = None
    number: int = 0

    @property
    def model(self) -> str:
        """The model as asked, or an empty text."""
        model = self.params.get("model")
        return model if isinstance(model, str) else ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, empty if the call has a problem."""
        return _NO_MESSAGES if self.problem else self.params["messages"]

    @property
    def max_tokens(self) -> int | None:
        """The most tokens the answer may have, or None."""
        most = self.params.get("max_completion_tokens", self.params.get("max_tokens"))
        return most if isinstance(most, int) and most >= 0 else None

    @property
    def answer_id(self) -> str:
        """The endpoint's own name for this call, sent back as `x-request-id`."""
        return f"req_{draws.whole(self.id, self.number):016x}"

    @property
    def cost(self) -> Cost:
        """What the call takes from the limits."""
        return Cost(self.model, token_count(self.prompt), self.max_tokens or 0)


def read_call(request: Request) -> Call:
    """Reads a chat call; one that cannot be answered carries its `problem` in words."""
    try:
        params = json.loads(request.body)
        problem = _problem_of(params)
    except (ValueError, RecursionError):
        params, problem = {}, "We could not parse the JSON body of your request."
    prompt = "" if problem else prompt_text(params["messages"])
    call_id, attempt = _identity(request, prompt)
    return Call(call_id, attempt, params if isinstance(params, dict) else {}, prompt, request.body, problem)


def split_request_id(header: str) -> tuple[str, int | None]:
    """Splits `<id>:<attempt>` at the last colon and decodes the id; a tail that is no number belongs to the id."""
    head, colon, tail = header.rpartition(":")
    if colon and tail.isdecimal() and tail.isascii():
        return unquote(head), int(tail)
    return unquote(header), None


def _identity(request: Request, prompt: str) -> tuple[str, int | None]:
    header = request.headers.get("x-request-id")
    if header:
        return split_request_id(header)
    return sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16], None


def _problem_of(params: object) -> str | None:
    if not isinstance(params, dict):
        return "The body must be a JSON object."
    if not isinstance(params.get("model"), str) or not params["model"]:
        return "you must provide a model parameter"
    messages = params.get("messages")
    if not isinstance(messages, list) or not messages:
        return "Missing required parameter: 'messages'."
    if not all(isinstance(message, dict) and "role" in message for message in messages):
        return "Invalid type for 'messages': expected objects with a role."
    if not isinstance(params.get("response_format"), dict | None):
        return "Invalid type for 'response_format': expected an object."
    return None
