"""From a failed call to its outcome: every status, and the codes that say more than the status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.statuses import Billed, Reason
from worker.core.classify import DETAIL_CHARS, classify
from worker.core.outcome import Kind, Outcome
from worker.core.reply import Break, Broken, Reply

NOW = 1_767_225_600.0


def of(status: int, error: Any = None, *, body: bytes | None = None, **headers: str) -> Outcome:
    content = json.dumps({"error": error}).encode() if body is None else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return classify(Reply(status, named, content), NOW)


@pytest.mark.parametrize(
    ("status", "kind", "reason", "billed"),
    [
        (400, Kind.REJECTED, Reason.REJECTED_REQUEST, Billed.NO),
        (401, Kind.RUN_FAULT, Reason.AUTH, Billed.NO),
        (402, Kind.RUN_FAULT, Reason.QUOTA, Billed.NO),
        (403, Kind.RUN_FAULT, Reason.AUTH, Billed.NO),
        (404, Kind.RUN_FAULT, Reason.REJECTED_REQUEST, Billed.NO),
        (405, Kind.RUN_FAULT, Reason.REJECTED_REQUEST, Billed.NO),
        (301, Kind.RUN_FAULT, Reason.REJECTED_REQUEST, Billed.NO),
        (307, Kind.RUN_FAULT, Reason.REJECTED_REQUEST, Billed.NO),
        (408, Kind.TROUBLE, Reason.SERVER_ERROR, Billed.NO),
        (409, Kind.TROUBLE, Reason.SERVER_ERROR, Billed.NO),
        (413, Kind.REJECTED, Reason.TOO_LONG, Billed.NO),
        (422, Kind.REJECTED, Reason.REJECTED_REQUEST, Billed.NO),
        (425, Kind.TROUBLE, Reason.SERVER_ERROR, Billed.NO),
        (429, Kind.RATE_LIMITED, Reason.RATE_LIMITED, Billed.NO),
        (500, Kind.TROUBLE, Reason.SERVER_ERROR, Billed.NO),
        (502, Kind.TROUBLE, Reason.SERVER_ERROR, Billed.NO),
        (503, Kind.UNAVAILABLE, Reason.SERVER_ERROR, Billed.NO),
        (504, Kind.UNAVAILABLE, Reason.SERVER_ERROR, Billed.MAYBE),
        (520, Kind.TROUBLE, Reason.SERVER_ERROR, Billed.NO),
        (524, Kind.TROUBLE, Reason.SERVER_ERROR, Billed.MAYBE),
        (529, Kind.TROUBLE, Reason.SERVER_ERROR, Billed.NO),
    ],
)
def test_each_status(status: int, kind: Kind, reason: Reason, billed: Billed) -> None:
    found = of(status, {"message": "no"})
    assert (found.kind, found.reason, found.billed, found.status) == (kind, reason, billed, status)


@pytest.mark.parametrize(
    ("how", "kind", "reason", "billed"),
    [
        (Break.NOT_SENT, Kind.CONNECTION, Reason.CONNECTION, Billed.NO),
        (Break.CONNECTION, Kind.CONNECTION, Reason.CONNECTION, Billed.MAYBE),
        (Break.TIMEOUT, Kind.TIMEOUT, Reason.TIMEOUT, Billed.MAYBE),
        (Break.OVERSIZE, Kind.MALFORMED, Reason.MALFORMED_RESPONSE, Billed.MAYBE),
        (Break.ENCODING, Kind.MALFORMED, Reason.MALFORMED_RESPONSE, Billed.MAYBE),
    ],
)
def test_each_call_without_a_whole_answer(how: Break, kind: Kind, reason: Reason, billed: Billed) -> None:
    found = classify(Broken(how, "ReadError"), NOW)
    assert (found.kind, found.reason, found.billed, found.status, found.code) == (
        kind,
        reason,
        billed,
        None,
        "ReadError",
    )


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (400, "model_not_found", Reason.REJECTED_REQUEST),
        (400, "unsupported_parameter", Reason.REJECTED_REQUEST),
        (400, "unsupported_value", Reason.REJECTED_REQUEST),
        (400, "invalid_api_key", Reason.AUTH),
        (429, "insufficient_quota", Reason.QUOTA),
        (403, "billing_hard_limit_reached", Reason.QUOTA),
        (400, "insufficient_quota", Reason.QUOTA),
    ],
)
def test_codes_that_are_about_the_whole_run(status: int, code: str, reason: Reason) -> None:
    for error in ({"code": code}, {"type": code}, {"code": None, "type": code}):
        found = of(status, error)
        assert (found.kind, found.reason) == (Kind.RUN_FAULT, reason)


def test_a_parameter_the_model_does_not_know_is_no_fault_of_the_row() -> None:
    error = {"type": "invalid_request_error", "param": "max_tokens", "code": "unsupported_parameter"}
    found = of(400, error)
    assert found.kind is Kind.RUN_FAULT
    assert found.message == "run_fault, status 400, unsupported_parameter invalid_request_error max_tokens"


@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}},
        {"code": "content_filter"},
        {"type": "content_policy_violation"},
        {"code": "BadRequest", "innererror": {"code": "ResponsibleAIPolicyViolation"}},
    ],
)
@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_filtered_prompt_is_the_rows_own_end_whatever_status_it_comes_with(status: int, error: Any) -> None:
    found = of(status, error)
    assert (found.kind, found.reason, found.billed) == (Kind.REJECTED, Reason.FILTERED, Billed.NO)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded", "message": "x"},
        {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000."},
        {"message": "the request exceeds the available context size, try increasing it"},
        {"message": "Input validation error: too many tokens"},
        {"message": "prompt is too long: 210000 tokens > 200000 maximum"},
    ],
)
def test_a_prompt_that_is_too_long_is_final(error: Any) -> None:
    found = of(400, error)
    assert (found.kind, found.reason) == (Kind.REJECTED, Reason.TOO_LONG)


def test_servers_without_an_error_object_are_read_too() -> None:
    plain = of(400, body=b'{"object": "error", "message": "maximum context length is 8192 tokens", "code": 400}')
    assert plain.reason is Reason.TOO_LONG
    assert of(400, "the context length is exceeded").reason is Reason.TOO_LONG
    assert of(400, body=b'{"detail": "bad"}').reason is Reason.REJECTED_REQUEST


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"7", b'"no"', b"<html>bad gateway</html>", b"\xff\xfe", b'{"error": null}']
)
@pytest.mark.parametrize("status", [502, 400, 401, 429])
def test_a_body_that_says_nothing_leaves_the_status_its_word(status: int, body: bytes) -> None:
    found = of(status, body=body, content_type="text/html")
    assert found.status == status
    assert found.kind is of(status, {}).kind


def test_an_html_page_with_an_error_status_is_that_status() -> None:
    found = of(502, body=b"<html><h1>502 Bad Gateway</h1></html>", content_type="text/html")
    assert (found.kind, found.reason, found.detail) == (Kind.TROUBLE, Reason.SERVER_ERROR, "")


@pytest.mark.parametrize("kind", ["rate limited", "unavailable", "trouble"])
def test_the_wait_that_was_asked_for_is_read_with_each_of_them(kind: str) -> None:
    status = {"rate limited": 429, "unavailable": 503, "trouble": 500}[kind]
    assert of(status, {}, retry_after="7").retry_after == 7
    assert of(status, {}).retry_after is None


def test_our_own_words_hold_no_free_text_of_the_server() -> None:
    found = of(400, {"message": "you said: tell-nobody", "code": "bad thing: tell-nobody", "type": "bad_thing"})
    assert "tell-nobody" not in found.message + repr(found)
    assert found.message == "rejected, status 400, bad_thing"
    assert found.detail == "you said: tell-nobody"


def test_the_servers_free_text_is_cut_and_cleaned() -> None:
    found = of(500, {"message": "\x00\ud800" + "x" * 5000})
    assert found.detail == "\ufffd\ufffd" + "x" * (DETAIL_CHARS - 2)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from("code type param message innererror status status_code".split())
STATUSES = st.integers(100, 599)


@given(
    STATUSES,
    st.dictionaries(NAMES, JSON),
    st.dictionaries(st.sampled_from(["retry-after", "content-type"]), st.text()),
)
def test_any_error_object_has_an_outcome(status: int, error: dict[str, Any], headers: dict[str, str]) -> None:
    for content in ({"error": error}, error, {"error": [error]}, {"error": error, "choices": []}):
        found = classify(Reply(status, headers, json.dumps(content).encode()), NOW)
        assert found.kind in Kind
        found.message.encode()


@given(STATUSES, st.binary(max_size=100), st.dictionaries(st.just("content-type"), st.text()))
def test_any_body_has_an_outcome(status: int, body: bytes, headers: dict[str, str]) -> None:
    assert classify(Reply(status, headers, body), NOW).kind in Kind


@pytest.mark.parametrize("code", ["9" * 5000, "²", "٣", "429.0", -429, 4.29e2, True, [429]])
def test_a_status_inside_that_is_none_is_a_server_error(code: object) -> None:
    found = of(200, {"code": code, "message": "busy"})
    assert (found.kind, found.reason) == (Kind.TROUBLE, Reason.SERVER_ERROR)
