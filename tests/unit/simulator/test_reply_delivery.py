from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.delivery import End, Step, plain_steps, steps_of
from simulator.replies import Reply, reply_to
from simulator.script import Action
from tests.unit.simulator.samples import action_of, call_of

BODY = b"0123456789"


def _steps(keep_alive: bool = True, **fields: Any) -> list[Step]:
    return list(steps_of(Reply(200, BODY), action_of(**fields), keep_alive=keep_alive))


def _sent(steps: list[Step]) -> tuple[bytes, bytes]:
    head, _, body = b"".join(step.data for step in steps).partition(b"\r\n\r\n")
    return head, body


def test_a_good_answer_is_one_write_and_keeps_the_connection() -> None:
    (step,) = _steps()
    assert step == next(plain_steps(Reply(200, BODY), keep_alive=True))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"
    assert step == Step(head + BODY, 0.0, End.NEXT)


def test_a_client_that_asks_to_close_is_told_so() -> None:
    (step,) = _steps(keep_alive=False)
    assert b"\r\nConnection: close\r\n" in step.data
    assert step.end is End.CLOSE


def test_headers_are_added_replaced_and_left_out() -> None:
    steps = _steps(headers={"Retry-After": "-1", "content-type": "text/odd", "Content-Length": None})
    head, _ = _sent(steps)
    assert head == b"HTTP/1.1 200 OK\r\nRetry-After: -1\r\ncontent-type: text/odd"


def test_a_scripted_connection_header_closes_without_being_doubled() -> None:
    steps = _steps(headers={"Connection": "close"}, keep_alive=False)
    assert _sent(steps)[0].lower().count(b"connection: close") == 1
    assert steps[-1].end is End.CLOSE


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"close": "before_request"}, End.CLOSE),
        ({"close": "after_request"}, End.CLOSE),
        ({"close": "after_request", "reset": True}, End.RESET),
        ({"reset": True}, End.RESET),
        ({"hang": True}, End.HANG),
    ],
)
def test_faults_without_an_answer_send_no_byte(fields: dict[str, Any], end: End) -> None:
    assert _steps(**fields) == [Step(end=end)]


def test_half_a_head_is_sent_before_the_close() -> None:
    (step,) = _steps(close="mid_headers")
    assert b"\r\n\r\n" not in step.data
    assert step.data.startswith(b"HTTP/1.1 200")
    assert step.end is End.CLOSE


@pytest.mark.parametrize(
    ("fields", "body", "end"),
    [
        ({}, b"01234", End.CLOSE),
        ({"reset": True}, b"01234", End.RESET),
        ({"close_after_bytes": 3}, b"012", End.CLOSE),
        ({"close_after_bytes": 3, "chunked": True}, b"3\r\n012\r\n", End.CLOSE),
    ],
)
def test_a_body_is_cut_though_its_whole_length_was_promised(fields: dict[str, Any], body: bytes, end: End) -> None:
    steps = _steps(close="mid_body", **fields)
    head, sent = _sent(steps)
    assert b"Content-Length: 10" in head or b"chunked" in head
    assert (sent, steps[-1].end) == (body, end)


def test_a_chunked_body_is_framed_and_ended() -> None:
    steps = _steps(chunked=4)
    head, body = _sent(steps)
    assert b"Transfer-Encoding: chunked" in head
    assert b"Content-Length" not in head
    assert body == b"4\r\n0123\r\n4\r\n4567\r\n2\r\n89\r\n0\r\n\r\n"
    assert steps[-1].end is End.NEXT


@pytest.mark.parametrize(("promised", "end"), [(100, End.CLOSE), (4, End.NEXT)])
def test_a_wrong_length_closes_only_where_bytes_would_be_missing(promised: int, end: End) -> None:
    steps = _steps(wrong_content_length=promised)
    head, body = _sent(steps)
    assert f"Content-Length: {promised}".encode() in head
    assert (body, steps[-1].end) == (BODY, end)


def test_a_trickled_body_comes_in_pieces_after_the_head() -> None:
    steps = _steps(trickle={"bytes": 4, "every_ms": 500})
    assert [(step.data, step.delay_s) for step in steps[1:]] == [
        (b"0123", 0.5),
        (b"4567", 0.5),
        (b"89", 0.5),
        (b"", 0.0),
    ]
    assert steps[0].delay_s == 0
    assert steps[0].data.endswith(b"\r\n\r\n")


def test_a_head_can_be_trickled_too() -> None:
    steps = _steps(trickle={"bytes": 8, "every_ms": 10, "from": "head"})
    assert steps[0] == Step(b"HTTP/1.1", 0.01)
    assert _sent(steps)[1] == BODY


@given(st.binary(max_size=200), st.integers(1, 50), st.integers(1, 50))
def test_chunks_and_trickle_together_lose_no_byte(body: bytes, chunk: int, piece: int) -> None:
    action = action_of(chunked=chunk, trickle={"bytes": piece, "every_ms": 1})
    steps = list(steps_of(Reply(200, body), action, keep_alive=True))
    framed, got = _sent(steps)[1], b""
    while framed:
        size, _, rest = framed.partition(b"\r\n")
        got, framed = got + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    assert got == body


def test_an_endless_body_is_made_only_as_far_as_it_is_taken() -> None:
    action = action_of(big_body=10**14, chunked=True)
    steps = steps_of(reply_to(call_of(), action, 0), action, keep_alive=True)
    assert len(list(islice(steps, 3000))) == 3000


def test_a_plain_action_equals_no_action() -> None:
    (step,) = steps_of(Reply(200, BODY), Action(), keep_alive=True)
    assert step.end is End.NEXT
