"""Calls and rules for the simulator's unit tests."""

from __future__ import annotations

import json
from typing import Any

from simulator.calls import Call, read_call
from simulator.reading import read_script
from simulator.script import Action, Rule
from simulator.wire import Request


def request_of(params: object, request_id: str | None = None) -> Request:
    """A chat request with this JSON body and `X-Request-Id`."""
    headers = {} if request_id is None else {"x-request-id": request_id}
    body = json.dumps(params).encode()
    return Request("POST", "/v1/chat/completions", "", headers, body, keep_alive=True)


def call_of(text: str = "hello", row: str = "r-1", number: int = 1, **params: Any) -> Call:
    """The `number`-th call of a row that asks one user message."""
    asked = {"model": "small", "messages": [{"role": "user", "content": text}], **params}
    call = read_call(request_of(asked, f"{row}:{number}"))
    call.number = number
    return call


def rule_of(**fields: Any) -> Rule:
    """The only rule of a script."""
    return read_script([fields]).rules[0]


def action_of(**fields: Any) -> Action:
    """The action of a rule with these fields."""
    return rule_of(**fields).action
