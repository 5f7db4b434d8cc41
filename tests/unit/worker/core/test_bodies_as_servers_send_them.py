"""JSON out of a body: byte-order marks, charsets, event streams, and what is no JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.bodies import parse

JSON = "application/json"


def chunk(content: Any = None, finish: str | None = None, **rest: Any) -> str:
    delta = {} if content is None else {"content": content}
    event = {"choices": [{"delta": delta, "finish_reason": finish}], **rest}
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n"


def streamed(*chunks: str, kind: str = "text/event-stream") -> Any:
    return parse("".join(chunks).encode(), kind)


def text_of(completion: Any) -> tuple[str, str]:
    choice = completion["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"a": "\xc3\xa9"}', JSON),
        (b'\xef\xbb\xbf{"a": "\xc3\xa9"}', JSON),
        (b' \r\n{"a": "\xc3\xa9"}\n', JSON),
        (b'{"a": "\xe9"}', "application/json; charset=ISO-8859-1"),
        (b'{"a": "\xc3\xa9"}', 'application/json; charset="utf-8"; x=y'),
        (b'{"a": "\xc3\xa9"}', "text/plain"),
        (b'{"a": "\xc3\xa9"}', ""),
        (b'{"a": "\xc3\xa9"}', "application/json; charset=klingon"),
        (b'{"a": "\xc3\xa9"}', "application/json; charset="),
        ('{"a": "é"}'.encode("utf-16"), "application/json; charset=utf-16"),
        (b'{"a": "\xc3\xa9"}\n\ndata: [DONE]\n', JSON),
    ],
)
def test_one_value_in_many_wrappings(body: bytes, kind: str) -> None:
    assert parse(body, kind) == {"a": "é"}


@pytest.mark.parametrize(
    "charset", ["undefined", "idna", "hex", "zlib", "\x00", "unicode_escape", "ascii", "utf-32", "é"]
)
def test_a_charset_that_does_not_fit_raises_nothing(charset: str) -> None:
    parse(b'{"a": "\xff\xc3\xa9"}', f"application/json; charset={charset}")


@pytest.mark.parametrize(
    "body", [b"", b" ", b"<html>", b"{", b'{"a": 1} and more', b"[1}", b"{'a': 1}", b"[" * 100_000, b"9" * 5000]
)
def test_what_is_no_json_is_none(body: bytes) -> None:
    assert parse(body, JSON) is None


def test_a_stream_is_put_together() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    last = f'data: {{"choices": [], "usage": {json.dumps(usage)}}}\n\n'
    whole = streamed(chunk("Ye", model="m"), chunk("s"), chunk(None, "stop"), last, "data: [DONE]\n\n")
    assert text_of(whole) == ("Yes", "stop")
    assert (whole["model"], whole["usage"]) == ("m", usage)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_line_end_of_a_stream(end: str) -> None:
    assert text_of(streamed((chunk("Yes") + chunk("", "stop")).replace("\n", end))) == ("Yes", "stop")


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_a_character_that_only_python_takes_for_a_line_end_is_text(odd: str) -> None:
    assert text_of(streamed(chunk(f"a{odd}b"), chunk("", "stop"))) == (f"a{odd}b", "stop")


def test_comments_and_other_fields_of_a_stream_are_passed_over() -> None:
    stream = ": keep-alive\n\nevent: chunk\nid: 7\n" + chunk("Yes") + ": more\n\n" + chunk("", "stop")
    assert text_of(streamed(stream)) == ("Yes", "stop")


def test_a_stream_told_as_json_is_known_by_its_looks() -> None:
    assert text_of(streamed(chunk("Yes", "stop"), kind=JSON)) == ("Yes", "stop")


@pytest.mark.parametrize(
    "stream",
    [
        chunk("Ye"),
        chunk("Ye") + "data: [DONE]\n\n",
        chunk("Ye") + 'data: {"choices": [{"delta": {"con',
        "data: [DONE]\n\n",
        "data: nonsense\n\n" + chunk("Yes", "stop"),
        "data: [1]\n\n" + chunk("Yes", "stop"),
        ": only a comment\n\n",
    ],
)
def test_a_stream_that_broke_off_or_cannot_be_read_is_none(stream: str) -> None:
    assert streamed(stream) is None


def test_an_error_inside_a_stream_is_the_answer() -> None:
    assert streamed(chunk("Ye"), 'data: {"error": {"code": 429}}\n\n') == {"error": {"code": 429}}


@pytest.mark.parametrize("content", [[{"type": "text", "text": "a"}], {"a": 1}, 7, True])
def test_a_piece_that_is_no_text_is_no_crash(content: Any) -> None:
    assert streamed(chunk(content), chunk("b", "stop"))["choices"][0]["message"]["content"] in ("b", "ab")


SOME = st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(), st.integers())
EVENTS = st.dictionaries(
    st.sampled_from(["choices", "usage", "model", "error"]),
    SOME | st.lists(st.dictionaries(st.sampled_from(["delta", "message", "finish_reason"]), SOME), max_size=2),
)


@given(st.lists(EVENTS, max_size=4))
def test_any_events(events: list[Any]) -> None:
    streamed(*(f"data: {json.dumps(event)}\n\n" for event in events))


@given(st.binary(), st.text())
def test_any_bytes_under_any_name(body: bytes, kind: str) -> None:
    parse(body, kind)
    parse(b"data: " + body, f"text/event-stream; charset={kind}")
