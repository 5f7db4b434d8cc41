"""Asks an endpoint for its models, and for one answer: no proxy of the environment, no redirect, bounded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from control.doctor.settings import Server

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 30.0
# Above any list of models.
_MOST_BYTES = 8 * 1024 * 1024
_ROW = "Answer with the word OK."
_MOST_TOKENS = 5


@dataclass(frozen=True)
class Answer:
    """A whole answer; `body` is None where it is no JSON."""

    status: int
    seconds: float
    body: Any


@dataclass(frozen=True)
class Broken:
    """No answer; `why` in our own words, or the operating system's."""

    why: str


def list_models(server: Server) -> Answer | Broken:
    """GET the list of models, with the endpoint's key."""
    return _exchange(server, lambda client: client.stream("GET", f"{server.base_url}/models"))


def ask(server: Server) -> Answer | Broken:
    """Ask the model one harmless row, of which at most 5 tokens of answer are paid."""
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": _ROW}],
        "max_tokens": _MOST_TOKENS,
    }
    return _exchange(server, lambda client: client.stream("POST", f"{server.base_url}/chat/completions", json=body))


def _exchange(server: Server, send: Callable[[httpx.Client], Any]) -> Answer | Broken:
    headers = {"Accept-Encoding": "identity"}
    if server.key is not None:
        headers["Authorization"] = f"Bearer {server.key.get_secret_value()}"
    waits = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    try:
        with httpx.Client(headers=headers, timeout=waits, follow_redirects=False, trust_env=False) as client:
            return _read(client, send)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return Broken(_why(error))


def _read(client: httpx.Client, send: Callable[[httpx.Client], Any]) -> Answer | Broken:
    began = time.monotonic()
    body = bytearray()
    with send(client) as response:
        for part in response.iter_bytes():
            body += part
            if len(body) > _MOST_BYTES or time.monotonic() - began > _READ_SECONDS:
                return Broken("its answer does not end")
        return Answer(response.status_code, time.monotonic() - began, _json(bytes(body)))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _why(error: Exception) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {_CONNECT_SECONDS:.0f} s"
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {_READ_SECONDS:.0f} s"
    if isinstance(error, httpx.ConnectError):
        return str(error)
    return f"the connection ended without an answer ({type(error).__name__})"
