"""Every answer that the field cases and faults ask of an endpoint can be written as a script."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

import simulator
from simulator import reading
from simulator.delivery import End, steps_of
from simulator.outcomes import is_billed, outcome_of, sends_status
from simulator.reading import parse_script
from simulator.replies import Reply, reply_to
from simulator.script import Action
from tests.unit.simulator.samples import action_of, call_of


def _reply(**fields: Any) -> Reply:
    return reply_to(call_of(), action_of(**fields), 0)


@pytest.mark.parametrize(
    "body",
    [{"choices": None, "error": {"code": 429, "message": "busy"}}, {"choices": []}, {}, None],
)
def test_a_200_without_an_answer(body: object) -> None:
    reply = _reply(json=body)
    assert (reply.status, json.loads(reply.body)) == (200, body)


def test_a_filtered_prompt_and_a_filtered_answer() -> None:
    error = {"code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}
    assert json.loads(_reply(status=400, json={"error": error}).body) == {"error": error}
    choice = json.loads(_reply(message={"role": "assistant"}, finish_reason="content_filter").body)["choices"][0]
    assert (choice["message"], choice["finish_reason"]) == ({"role": "assistant"}, "content_filter")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Yes"}]},
        {"role": "assistant", "content": "", "reasoning_content": "42"},
        {"role": "assistant", "content": "<think>a</think>B"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
    ],
)
def test_messages_of_other_servers(message: dict[str, Any]) -> None:
    assert json.loads(_reply(message=message).body)["choices"][0]["message"] == message


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"prompt_tokens": None},
        {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": None}},
        {"total_tokens": "17"},
        {"prompt_tokens": 2050, "completion_tokens": 2046},
    ],
)
def test_odd_usage(usage: object) -> None:
    assert json.loads(_reply(usage=usage).body)["usage"] == usage


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 422, 425, 500, 502, 503, 504, 520, 524, 529])
def test_any_status(status: int) -> None:
    assert _reply(status=status).status == status


def test_a_parameter_that_the_model_refuses() -> None:
    wanted = {"type": "invalid_request_error", "param": "max_tokens", "code": "unsupported_parameter"}
    error = json.loads(_reply(match={"param": "max_tokens"}, status=400, error=wanted).body)["error"]
    assert {name: error[name] for name in wanted} == wanted


def test_a_html_page_and_a_login_page() -> None:
    for status in (502, 200):
        reply = _reply(status=status, body="<html>", content_type="text/html")
        assert (reply.status, reply.content_type, reply.body) == (status, "text/html", b"<html>")


def test_a_plain_body_that_claims_to_be_gzip_and_an_empty_one() -> None:
    action = action_of(headers={"Content-Encoding": "gzip"})
    sent = b"".join(step.data for step in steps_of(reply_to(call_of(), action, 0), action, keep_alive=True))
    assert b"Content-Encoding: gzip\r\n\r\n" in sent
    assert b'"chat.completion"' in sent
    assert _reply(body="").body == b""


def test_good_json_followed_by_an_end_mark() -> None:
    assert _reply(append="\n\ndata: [DONE]\n\n").body.endswith(b"}\n\ndata: [DONE]\n\n")


def test_bytes_that_are_no_text() -> None:
    assert _reply(body_base64=base64.b64encode(b"\xff\xfe").decode()).body == b"\xff\xfe"


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\u202eabc", "\x1b[31mred", "x" * 1_000_000])
def test_text_that_stores_and_terminals_stumble_over(text: str) -> None:
    assert json.loads(_reply(content=text).body)["choices"][0]["message"]["content"] == text


@pytest.mark.parametrize("value", ["5", "0.5", "", "-1", "soon", "Fri, 31 Dec 1999 23:59:59 GMT", "3600"])
def test_any_retry_after(value: str) -> None:
    action = action_of(status=429, headers={"Retry-After": value})
    (first, *_) = steps_of(reply_to(call_of(), action, 0), action, keep_alive=True)
    assert f"\r\nRetry-After: {value}\r\n".encode() in first.data


@pytest.mark.parametrize(
    ("fields", "outcome", "status_sent", "billed"),
    [
        ({}, "answered", True, True),
        ({"latency_ms": 8000}, "answered", True, True),
        ({"bill": False}, "answered", True, False),
        ({"body": "garbage"}, "answered", True, True),
        ({"error": {"code": 429}}, "answered", True, False),
        ({"status": 500}, "error", True, False),
        ({"status": 504, "bill": True}, "error", True, True),
        ({"redirect": "http://x/"}, "redirected", True, False),
        ({"hang": True}, "hung", False, False),
        ({"reset": True}, "reset", False, False),
        ({"reset": True, "close": "mid_body"}, "cut", True, True),
        ({"close": "mid_body"}, "cut", True, True),
        ({"close": "mid_headers"}, "cut", False, True),
        ({"close": "before_request"}, "closed_before_request", False, False),
        ({"close": "after_request"}, "closed_after_request", False, False),
        ({"close": "after_request", "bill": True}, "closed_after_request", False, True),
    ],
)
def test_what_each_fault_counts_as(fields: dict[str, Any], outcome: str, status_sent: bool, billed: bool) -> None:
    action, reply = action_of(**fields), _reply(**fields)
    assert (outcome_of(action, reply), sends_status(action), is_billed(action, reply)) == (
        outcome,
        status_sent,
        billed,
    )


def test_the_default_keeps_the_connection() -> None:
    (step,) = steps_of(_reply(), Action(), keep_alive=True)
    assert step.end is End.NEXT


def test_every_script_in_the_readme_is_one() -> None:
    text = (Path(simulator.__file__).parent / "README.md").read_text("utf-8")
    scripts = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert [len(parse_script(script).rules) for script in scripts] == [3, 12]


def test_the_readme_names_every_field() -> None:
    text = (Path(simulator.__file__).parent / "README.md").read_text("utf-8")
    assert [name for name in (*reading.RULE_FIELDS, *reading.MATCH_FIELDS) if f"`{name}`" not in text] == []
