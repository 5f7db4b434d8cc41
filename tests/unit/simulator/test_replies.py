from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from simulator.answers import answer
from simulator.replies import Reply, reply_to
from tests.unit.simulator.samples import action_of, call_of


def _reply(text: str = "hello", params: dict[str, Any] | None = None, **fields: Any) -> Reply:
    return reply_to(call_of(text, **(params or {})), action_of(**fields), 1_700_000_000)


def _json(text: str = "hello", params: dict[str, Any] | None = None, **fields: Any) -> Any:
    return json.loads(_reply(text, params, **fields).body)


def test_a_good_answer_has_every_field_of_a_chat_completion() -> None:
    messages = [{"role": "user", "content": "hello"}]
    said = answer(messages, "small")
    body = _json()
    assert body.pop("id").startswith("chatcmpl-")
    assert body == {
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "small",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": said, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 2, "completion_tokens": 8, "total_tokens": 10},
    }


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_answer_above_max_tokens_is_cut_and_says_so(name: str) -> None:
    body = _json("x" * 400, {name: 10})
    choice = body["choices"][0]
    assert (len(choice["message"]["content"]), choice["finish_reason"]) == (40, "length")
    assert body["usage"]["completion_tokens"] == 10


def test_max_tokens_can_be_ignored_or_leave_room() -> None:
    for reply in (_json("x" * 400, {"max_tokens": 10}, max_tokens="ignore"), _json("x", {"max_tokens": 1000})):
        assert reply["choices"][0]["finish_reason"] == "stop"


def test_a_schema_that_cannot_be_filled_is_a_400_of_openais_form() -> None:
    asked = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "thing"}}}}
    reply = _reply(params=asked)
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["type"], error["param"]) == (400, "invalid_request_error", "response_format")


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (404, "invalid_request_error", "model_not_found"),
        (418, "invalid_request_error", None),
        (429, "requests", "rate_limit_exceeded"),
        (500, "server_error", None),
        (529, "server_error", None),
    ],
)
def test_a_bare_status_has_openais_error_body(status: int, kind: str, code: str | None) -> None:
    reply = _reply(status=status)
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["type"], error["code"]) == (status, kind, code)
    assert error.keys() == {"message", "type", "param", "code"}


def test_fields_of_an_error_replace_and_add() -> None:
    error = _json(status=429, error={"code": "insufficient_quota", "innererror": {"a": 1}})["error"]
    assert error["code"] == "insufficient_quota"
    assert error["innererror"] == {"a": 1}
    assert error["message"] == "Rate limit reached"


def test_content_message_usage_and_finish_reason_can_be_given() -> None:
    body = _json(content="given", usage={"prompt_tokens": None}, finish_reason="content_filter")
    assert body["choices"][0]["message"]["content"] == "given"
    assert body["choices"][0]["finish_reason"] == "content_filter"
    assert body["usage"] == {"prompt_tokens": None}
    assert _json(message={"role": "assistant"})["choices"][0]["message"] == {"role": "assistant"}
    assert _json(usage=None)["usage"] is None
    assert _json(finish_reason=None)["choices"][0]["finish_reason"] is None
    assert "usage" not in _json(omit=["usage"])


def test_an_answer_can_have_any_length() -> None:
    content = _json(content_chars=1_000_000)["choices"][0]["message"]["content"]
    assert len(content) == 1_000_000
    assert content.startswith("small [")


def test_text_is_sent_as_utf8_and_half_a_surrogate_pair_as_an_escape() -> None:
    assert "猫".encode() in _reply(content="猫").body
    assert b'"a\\ud800\\u732b"' in _reply(content="a\ud800猫").body
    assert b'"a\\u0000b"' in _reply(content="a\x00b").body


def test_gzip_is_real_and_said() -> None:
    reply = _reply(gzip=True)
    assert ("Content-Encoding", "gzip") in reply.headers
    assert json.loads(gzip.decompress(reply.body))["object"] == "chat.completion"


def test_a_gzip_bomb_inflates_to_its_size_as_a_good_answer() -> None:
    reply = _reply(gzip_bomb=30_000_000)
    assert reply.stream is not None
    packed = b"".join(reply.stream)
    whole = zlib.decompress(packed, 31)
    assert (len(whole), len(packed) < 100_000) == (30_000_000, True)
    assert json.loads(whole)["object"] == "chat.completion"


def test_a_big_body_is_a_good_answer_of_its_size() -> None:
    reply = _reply(big_body=5_000_000)
    assert reply.stream is not None
    whole = b"".join(reply.stream)
    assert len(whole) == reply.length == 5_000_000
    assert json.loads(whole)["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("by", [({}, {"event_stream": True}), ({"stream": True}, {})])
def test_an_event_stream_holds_the_answer_and_the_end_mark(by: tuple[dict[str, Any], dict[str, Any]]) -> None:
    reply = _reply(params=by[0], **by[1])
    assert reply.content_type.startswith("text/event-stream")
    *events, last, rest = reply.body.split(b"\n\n")
    assert (last, rest) == (b"data: [DONE]", b"")
    choices = [json.loads(event.removeprefix(b"data: "))["choices"][0] for event in events]
    assert choices[0]["delta"]["content"] == answer([{"role": "user", "content": "hello"}], "small")
    assert choices[-1]["finish_reason"] == "stop"


def test_a_redirect_names_the_other_place() -> None:
    reply = _reply(redirect="http://127.0.0.1:1/elsewhere")
    assert (reply.status, reply.headers) == (307, [("Location", "http://127.0.0.1:1/elsewhere")])
