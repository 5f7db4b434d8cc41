"""From a 200 to an answer, or to what it is short of."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.statuses import Billed, Reason
from worker.core.classify import classify
from worker.core.outcome import Answer, Kind, Outcome
from worker.core.reply import Reply

NOW = 1_767_225_600.0


def of(content: Any, content_type: str = "application/json", status: int = 200) -> Outcome:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return classify(Reply(status, {"content-type": content_type}, body), NOW)


def said(message: Any, finish: Any = "stop", **rest: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}], **rest}


def answer(outcome: Outcome) -> Answer:
    assert outcome.answer is not None
    return outcome.answer


def test_a_good_answer_with_all_it_reports() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    found = of(said({"content": "Yes"}, usage=usage, model="served-1"))
    assert (found.kind, found.reason, found.billed, found.status) == (Kind.ANSWERED, None, Billed.YES, 200)
    assert answer(found) == Answer("Yes", "stop", "served-1", 7, 2)


def test_an_error_inside_a_200_is_that_error() -> None:
    found = of({"choices": None, "error": {"code": 429, "message": "busy"}})
    assert (found.kind, found.reason, found.status) == (Kind.RATE_LIMITED, Reason.RATE_LIMITED, 429)
    assert of({"error": {"code": "insufficient_quota"}}).kind is Kind.RUN_FAULT
    assert of({"error": {"status": 400, "code": "content_filter"}}).reason is Reason.FILTERED
    assert of({"error": "out of memory"}).kind is Kind.TROUBLE


def test_an_error_beside_an_answer_does_not_take_the_answer_away() -> None:
    assert of(said({"content": "Yes"}, error={"message": "late"})).kind is Kind.ANSWERED


@pytest.mark.parametrize(
    "content",
    [
        {"choices": []},
        {},
        None,
        [],
        "text",
        {"choices": {}},
        {"choices": [None]},
        {"choices": ["x"]},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": "Yes"}]},
        {"choices": [{"text": "Yes"}]},
        b"",
        b"{",
        b'{"choices": [{"message": {"content": "Ye',
        b"<html>log in</html>",
        gzip.compress(b"{}", mtime=0),
        b"null",
        b'{"a": 1}{"b": 2}',
        b"[" * 100_000,
    ],
)
def test_a_200_without_an_answer_is_malformed_and_perhaps_billed(content: Any) -> None:
    found = of(content)
    assert (found.kind, found.reason, found.billed) == (Kind.MALFORMED, Reason.MALFORMED_RESPONSE, Billed.MAYBE)
    assert found.answer is None


def test_the_body_of_a_malformed_answer_is_kept_shortened_in_the_ledger_only() -> None:
    found = of(b"<html>" + b"x" * 10_000)
    assert found.detail.startswith("<html>")
    assert len(found.detail) == 2000
    assert "<html>" not in found.message + repr(found)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Yes"}]}, "Yes"),
        ({"content": [{"type": "text", "text": "Ye"}, {"type": "text", "text": "s"}]}, "Yes"),
        ({"content": [{"text": "Yes"}]}, "Yes"),
        ({"content": ["odd", {"type": "text", "text": "Yes"}, {"type": "image_url", "text": "no"}]}, "Yes"),
        ({"content": "<think>a</think>B"}, "<think>a</think>B"),
        ({"content": "42", "reasoning_content": "thoughts"}, "42"),
        ({"content": "Yes", "tool_calls": []}, "Yes"),
        ({"content": "Yes", "refusal": None}, "Yes"),
        ({"content": "  Yes\n"}, "  Yes\n"),
    ],
)
def test_contents_in_every_form_servers_give_them(message: Any, text: str) -> None:
    found = of(said(message))
    assert (found.kind, answer(found).text) == (Kind.ANSWERED, text)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "", "reasoning_content": "42"},
        {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"content": None},
        {},
        {"content": " \n"},
        {"content": []},
        {"content": {}},
        {"content": [{"type": "text", "text": None}]},
        {"content": [{"type": "text", "text": {"value": "Yes"}}]},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
    ],
)
def test_no_text_is_no_success_but_is_paid_and_kept(message: Any) -> None:
    found = of(said(message, usage={"prompt_tokens": 7, "completion_tokens": 2}))
    assert (found.kind, found.reason, found.billed) == (Kind.UNFIT, Reason.INVALID_OUTPUT, Billed.YES)
    assert answer(found).text.strip() == ""
    assert answer(found).prompt_tokens == 7
    assert json.loads(found.detail)


@pytest.mark.parametrize(
    ("message", "finish", "reason"),
    [
        ({"content": "Ye"}, "length", Reason.TRUNCATED),
        ({"content": "Ye"}, "max_tokens", Reason.TRUNCATED),
        ({"content": ""}, "length", Reason.TRUNCATED),
        ({}, "content_filter", Reason.FILTERED),
        ({"content": "Ye"}, "content_filter", Reason.FILTERED),
        ({"content": None, "refusal": "I cannot."}, "stop", Reason.REFUSED),
    ],
)
def test_answers_that_ended_early(message: Any, finish: str, reason: Reason) -> None:
    found = of(said(message, finish))
    assert (found.kind, found.reason, found.billed) == (Kind.UNFIT, reason, Billed.YES)
    assert answer(found).text == (message.get("content") or "")


@pytest.mark.parametrize(
    ("usage", "prompt", "completion"),
    [
        (None, None, None),
        ({}, None, None),
        ([], None, None),
        ({"prompt_tokens": None, "completion_tokens": 2}, None, 2),
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": None}}, 7, 2),
        ({"prompt_tokens": "17", "completion_tokens": 2.0, "total_tokens": "19"}, 17, 2),
        ({"prompt_tokens": 3_000_000_000, "completion_tokens": 0}, 3_000_000_000, 0),
        ({"prompt_tokens": -1, "completion_tokens": True}, None, None),
        ({"prompt_tokens": "many", "completion_tokens": float("nan")}, None, None),
        ({"prompt_tokens": 2**63, "completion_tokens": 1e300}, None, None),
        # Two of these together are more than the database's numbers hold.
        ({"prompt_tokens": 2**63 - 1, "completion_tokens": 2**62}, None, None),
        ({"prompt_tokens": "9" * 5000, "completion_tokens": "²"}, None, None),
    ],
)
def test_token_counts_are_numbers_or_unknown_and_never_cost_an_answer(
    usage: Any, prompt: int | None, completion: int | None
) -> None:
    found = of(said({"content": "Yes"}, usage=usage))
    assert found.kind is Kind.ANSWERED
    assert (answer(found).prompt_tokens, answer(found).completion_tokens) == (prompt, completion)
    absent = of(said({"content": "Yes"}))
    assert (answer(absent).prompt_tokens, answer(absent).completion_tokens) == (None, None)


def test_hostile_text_is_stored_as_it_is_but_for_what_cannot_be_stored() -> None:
    odd = "\x1b[31m \u202e <b> =cmd() [red] '; DROP TABLE r;--"
    assert answer(of(said({"content": odd}))).text == odd
    found = answer(of(b'{"choices": [{"message": {"content": "a\\u0000b\\ud83d"}, "finish_reason": "stop"}]}'))
    assert (found.text, found.sanitised) == ("a\ufffdb\ufffd", True)


def test_a_megabyte_of_text_is_identical() -> None:
    text = "\u4f60\u597d é \r\n" * 150_000
    assert answer(of(said({"content": text}))).text == text


@pytest.mark.parametrize("finish", [None, 7, [], {"a": 1}, "odd", "x" * 5000, "\x00"])
def test_any_finish_reason(finish: Any) -> None:
    found = of(said({"content": "Yes"}, finish, model=finish))
    assert found.kind is Kind.ANSWERED
    assert len(answer(found).finish_reason or "") <= 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("content refusal tool_calls role".split()), JSON), JSON, JSON)
def test_any_completion_has_an_outcome(message: Any, finish: Any, usage: Any) -> None:
    found = of(said(message, finish, usage=usage, model=usage))
    assert found.kind in (Kind.ANSWERED, Kind.UNFIT)
    answer(found).text.encode()


@given(JSON)
def test_any_json_has_an_outcome(content: Any) -> None:
    for wrapped in (content, {"choices": content}, {"choices": [content]}, {"choices": [{"message": content}]}):
        assert of(wrapped).kind in Kind
