from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.calls import read_call, split_request_id
from simulator.limits import Cost
from simulator.wire import Request
from tests.unit.simulator.samples import call_of, request_of

CHAT = {"model": "small", "messages": [{"role": "user", "content": "hello"}]}
IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(IDS, st.integers(1, 99))
def test_an_id_survives_the_header_whatever_it_holds(row: str, attempt: int) -> None:
    assert split_request_id(f"{quote(row, safe='')}:{attempt}") == (row, attempt)


@pytest.mark.parametrize(
    ("header", "row", "attempt"),
    [
        ("r-1:2", "r-1", 2),
        ("a:b:3", "a:b", 3),
        ("a%3Ab:3", "a:b", 3),
        ("plain", "plain", None),
        ("a:b", "a:b", None),
        ("a:", "a:", None),
        ("a:²", "a:²", None),
    ],
)
def test_the_last_colon_parts_id_and_attempt(header: str, row: str, attempt: int | None) -> None:
    assert split_request_id(header) == (row, attempt)


def test_without_a_header_the_prompt_names_the_call() -> None:
    assert read_call(request_of(CHAT)).id == sha256(b"hello").hexdigest()[:16]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "could not parse"),
        (b"[" * 100_000, "could not parse"),
        (b"\xff", "could not parse"),
        (b"[]", "must be a JSON object"),
        (b"{}", "must provide a model"),
        (b'{"model":5}', "must provide a model"),
        (b'{"model":"m"}', "Missing required parameter: 'messages'"),
        (b'{"model":"m","messages":[]}', "Missing required parameter: 'messages'"),
        (b'{"model":"m","messages":["x"]}', "expected objects with a role"),
        (b'{"model":"m","messages":[{"role":"user"}],"response_format":5}', "response_format"),
    ],
)
def test_a_body_that_cannot_be_answered_says_why_and_keeps_its_id(body: bytes, problem: str) -> None:
    call = read_call(Request("POST", "/", "", {"x-request-id": "r-1:1"}, body, keep_alive=True))
    assert call.problem is not None
    assert problem in call.problem
    assert (call.id, call.messages, call.prompt) == ("r-1", [], "")


def test_the_cost_is_the_prompt_and_what_may_be_answered() -> None:
    assert call_of("x" * 400, max_tokens=50).cost == Cost("small", 100, 50)
    assert call_of("x" * 400).cost == Cost("small", 100, 0)


def test_answer_ids_differ_by_call() -> None:
    assert len({call_of(row=row, number=n).answer_id for row in "ab" for n in (1, 2)}) == 4
