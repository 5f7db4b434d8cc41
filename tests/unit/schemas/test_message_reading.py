"""What a message may be, and each way it can be unreadable: hand-made bytes, read by the contract."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.fingerprint import fingerprint
from schemas.message import MAX_ID_BYTES, Prompt, Unreadable, decode
from schemas.statuses import DeadLetter

USER = {"role": "user", "content": "Why?"}


def value(**fields: Any) -> bytes:
    return json.dumps({"id": "r-1", "prompt": "Why?", **fields}, ensure_ascii=False).encode()


def readable(raw: bytes, key: bytes | None = None) -> Prompt:
    read = decode(key, raw)
    assert isinstance(read, Prompt), read
    return read


def reason(raw: bytes, key: bytes | None = None) -> DeadLetter:
    read = decode(key, raw)
    assert isinstance(read, Unreadable), read
    return read.reason


def test_an_id_and_a_prompt_are_a_complete_message() -> None:
    prompt = readable(b'{"id": "r-17", "prompt": "Why?"}')
    assert (prompt.job, prompt.id, prompt.messages) == ("default", "r-17", (USER,))
    assert (prompt.run, prompt.model, prompt.params, prompt.response_format) == (None, None, {}, None)
    assert (prompt.published_at, prompt.sanitised, prompt.length) == (None, False, 4)


def test_every_optional_field_is_read() -> None:
    given = {
        "v": 1,
        "job": "reviews",
        "run": "run-3",
        "model": "small",
        "params": {"max_tokens": 5, "temperature": 0},
        "response_format": {"type": "json_object"},
        "published_at": "2026-01-02T03:04:05Z",
    }
    prompt = readable(value(**given))
    assert (prompt.job, prompt.run, prompt.model) == ("reviews", "run-3", "small")
    assert prompt.params == given["params"]
    assert prompt.response_format == given["response_format"]
    assert prompt.published_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("name", ["job", "run", "model", "params", "response_format", "fingerprint", "published_at"])
def test_an_optional_field_that_is_null_is_absent(name: str) -> None:
    assert readable(value(**{name: None})) == readable(value())


def test_a_version_that_is_null_is_absent() -> None:
    assert readable(value(v=None)) == readable(value())


def test_unknown_fields_are_kept_apart_and_ignored() -> None:
    assert readable(value(extra={"deep": [1, 2]}, zzz="\x00")) == readable(value())


def test_a_chat_list_stands_in_for_the_prompt() -> None:
    chat = [{"role": "system", "content": "Be short."}, USER, {"role": "user", "content": [{"type": "text"}]}]
    prompt = readable(json.dumps({"id": "r-1", "messages": chat}).encode())
    assert list(prompt.messages) == chat
    assert prompt.length == len("Be short.") + len("Why?")


@pytest.mark.parametrize(
    "id_",
    [
        "r-1",
        "000123",
        "1e5",
        "true",
        "'; DROP TABLE results;--",
        "$1",
        "%s",
        "a\nb",
        "{x}",
        "é",
        "e\u0301",
        "🦊" * 128,
    ],
)
def test_an_id_is_kept_to_the_byte(id_: str) -> None:
    assert readable(value(id=id_)).id == id_
    assert readable(value(id=id_), key=id_.encode()).id == id_


@pytest.mark.parametrize("key", [None, b""])
def test_a_null_or_empty_key_falls_back_to_the_id_in_the_body(key: bytes | None) -> None:
    assert readable(value(id="r-9"), key).id == "r-9"


@pytest.mark.parametrize("key", [b"r-2", b"r-1 ", b"R-1", b"\xff", "é".encode("latin-1")])
def test_a_key_that_differs_from_the_id_is_a_dead_letter(key: bytes) -> None:
    assert reason(value(id="r-1"), key) is DeadLetter.KEY_MISMATCH


def test_ids_that_look_alike_but_differ_in_bytes_are_different_keys() -> None:
    assert reason(value(id="é"), "e\u0301".encode()) is DeadLetter.KEY_MISMATCH


@pytest.mark.parametrize(
    "raw",
    [b"", b" ", b"no", b"{", b"[1]", b'"text"', b"12", b"null", b"true", b"\xff\xfe", b'{"id": "\xff"}', b"{}{}"],
)
def test_what_is_no_json_object_is_a_dead_letter(raw: bytes) -> None:
    assert reason(raw) is DeadLetter.NOT_JSON


def test_json_that_is_not_utf8_is_a_dead_letter() -> None:
    assert reason(value().decode().encode("utf-16")) is DeadLetter.NOT_JSON
    assert reason(value().decode().encode("utf-32-le")) is DeadLetter.NOT_JSON


def test_a_byte_order_mark_before_the_json_is_harmless() -> None:
    assert readable(b"\xef\xbb\xbf" + value()) == readable(value())


def test_the_framing_of_a_schema_registry_is_named() -> None:
    assert reason(b"\x00\x00\x00\x00\x07" + value()) is DeadLetter.FRAMED
    assert reason(b"\x00") is DeadLetter.FRAMED


@pytest.mark.parametrize("version", [0, 2, "1", [], {}, "x"])
def test_another_version_is_a_dead_letter(version: object) -> None:
    assert reason(value(v=version)) is DeadLetter.VERSION


@pytest.mark.parametrize("raw", [b"{}", b'{"prompt": "Why?"}', b'{"id": null, "prompt": "Why?"}'])
def test_without_an_id_a_message_is_a_dead_letter(raw: bytes) -> None:
    assert reason(raw) is DeadLetter.NO_ID


@pytest.mark.parametrize(
    "id_",
    [
        "",
        " ",
        " r-1",
        "r-1\n",
        "\tr-1",
        "\u3000r-1",
        "r\x00",
        17,
        1.5,
        True,
        ["r-1"],
        {"a": 1},
        "x" * (MAX_ID_BYTES + 1),
    ],
)
def test_an_id_out_of_bounds_is_a_dead_letter(id_: object) -> None:
    assert reason(value(id=id_)) is DeadLetter.INVALID_ID


def test_an_id_with_half_a_surrogate_pair_is_a_dead_letter() -> None:
    assert reason(b'{"id": "r\\ud83d", "prompt": "Why?"}') is DeadLetter.INVALID_ID
    assert reason(b'{"id": "r\xed\xa0\xbd", "prompt": "Why?"}') in (DeadLetter.INVALID_ID, DeadLetter.NOT_JSON)


def test_the_bound_of_an_id_counts_bytes() -> None:
    assert readable(value(id="é" * (MAX_ID_BYTES // 2))).id
    assert reason(value(id="é" * (MAX_ID_BYTES // 2) + "e")) is DeadLetter.INVALID_ID


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": None},
        {"prompt": ""},
        {"prompt": "  \n\t"},
        {"prompt": 7},
        {"prompt": ["Why?"]},
        {"prompt": "Why?", "messages": [USER]},
    ],
)
def test_a_message_asks_exactly_one_thing(fields: dict[str, Any]) -> None:
    assert reason(value(**fields)) is DeadLetter.NO_PROMPT


@pytest.mark.parametrize(
    "messages",
    [
        [],
        {},
        "Why?",
        7,
        [USER, "Why?"],
        [None],
        [{"role": "user"}],
        [{"content": "Why?"}],
        [{"role": "wizard", "content": "Why?"}],
        [{"role": ["user"], "content": "Why?"}],
        [{"role": {"a": 1}, "content": "Why?"}],
        [{"role": None, "content": "Why?"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": " "}],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": 7}],
    ],
)
def test_messages_are_known_roles_with_contents(messages: object) -> None:
    raw = json.dumps({"id": "r-1", "messages": messages}).encode()
    assert reason(raw) is DeadLetter.INVALID_MESSAGES


@pytest.mark.parametrize(
    "field",
    [
        {"job": ""},
        {"job": "a b"},
        {"job": "-a"},
        {"job": "x" * 201},
        {"job": 7},
        {"job": "a\n"},
        {"run": 7},
        {"run": "\x00"},
        {"model": ""},
        {"model": {"name": "small"}},
        {"params": [1]},
        {"params": "max_tokens=5"},
        {"response_format": "json"},
        {"fingerprint": "abc"},
        {"fingerprint": "a" * 64},
        {"fingerprint": 7},
        {"published_at": "yesterday"},
        {"published_at": 1767225600},
        {"published_at": "0001-01-01T00:00:00+23:00"},
        {"published_at": "9999-12-31T23:59:59-23:00"},
    ],
)
def test_a_field_of_the_wrong_kind_is_a_dead_letter(field: dict[str, Any]) -> None:
    assert reason(value(**field)) is DeadLetter.INVALID_FIELD


def test_a_fingerprint_that_is_that_of_the_content_is_taken() -> None:
    mark = fingerprint("small", [USER], {"n": 1}, {"type": "json_object"})
    fields = {"model": "small", "params": {"n": 1}, "response_format": {"type": "json_object"}}
    assert readable(value(fingerprint=mark, **fields)).fingerprint == mark
    # It is taken of the text as it is sent, after the replacement.
    cleaned = fingerprint(None, [{"role": "user", "content": "a\ufffd"}])
    assert readable(value(prompt="a\x00", fingerprint=cleaned)).fingerprint == cleaned


@pytest.mark.parametrize(
    "changed",
    [{"prompt": "Why not?"}, {"model": "large"}, {"params": {"n": 2}}, {"response_format": {"type": "text"}}],
)
def test_content_that_was_changed_under_its_fingerprint_is_a_dead_letter(changed: dict[str, Any]) -> None:
    fields = {"model": "small", "params": {"n": 1}, "response_format": {"type": "json_object"}}
    mark = fingerprint("small", [USER], {"n": 1}, {"type": "json_object"})
    read = decode(None, value(fingerprint=mark, **{**fields, **changed}))
    assert read == Unreadable(DeadLetter.INVALID_FIELD, "fingerprint differs from the content")


def test_what_postgres_and_utf8_refuse_is_replaced_before_it_is_sent() -> None:
    prompt = readable(b'{"id": "r-1", "prompt": "a\\u0000b\\ud83d c\\ude00"}')
    assert prompt.messages[0]["content"] == "a\ufffdb\ufffd c\ufffd"
    assert prompt.sanitised
    chat = readable(b'{"id": "r-1", "messages": [{"role": "user", "content": "a\\u0000"}]}')
    assert (chat.messages[0]["content"], chat.sanitised) == ("a\ufffd", True)


def test_a_whole_surrogate_pair_is_one_character_and_stays() -> None:
    prompt = readable(b'{"id": "r-1", "prompt": "\\ud83e\\udd8a"}')
    assert (prompt.messages[0]["content"], prompt.sanitised) == ("🦊", False)


def test_numbers_that_are_no_json_become_null_and_are_told() -> None:
    prompt = readable(b'{"id": "r-1", "prompt": "Why?", "params": {"temperature": NaN, "top_p": 1e999, "n": 1}}')
    assert prompt.params == {"temperature": None, "top_p": None, "n": 1}
    assert prompt.sanitised


def test_text_of_params_is_cleaned_and_told() -> None:
    prompt = readable(b'{"id": "r-1", "prompt": "Why?", "params": {"stop": "\\u0000"}}')
    assert (prompt.params, prompt.sanitised) == ({"stop": "\ufffd"}, True)


def test_neither_repr_nor_reason_shows_what_a_message_holds() -> None:
    canary = "tell-nobody"
    assert canary not in repr(readable(value(prompt=canary, params={"user": canary})))
    for raw in (value(prompt=canary, id=""), value(id=f" {canary}"), value(job=f" {canary}"), canary.encode()):
        assert canary not in repr(decode(None, raw))
