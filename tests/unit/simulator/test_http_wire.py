from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import wire
from simulator.wire import BadRequestError, Request, RequestReader, chunk_of, head_of

BODIES = st.binary(max_size=300)


def _sized(body: bytes, extra: str = "") -> bytes:
    head = f"POST /v1/chat/completions?a=1 HTTP/1.1\r\nHost: x\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _chunked(body: bytes, size: int, trailer: bytes = b"") -> bytes:
    pieces = [chunk_of(body[at : at + size]) for at in range(0, len(body), size)]
    head = b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(pieces) + b"0\r\n" + trailer + b"\r\n"


def _read_all(pieces: list[bytes], reader: RequestReader | None = None) -> list[Request]:
    reader, requests = reader or RequestReader(), []
    for piece in pieces:
        reader.feed(piece)
        while (request := reader.next()) is not None:
            requests.append(request)
    return requests


def _split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.tuples(BODIES, st.booleans()), max_size=5), st.lists(st.integers(0, 10_000), max_size=12))
def test_pipelined_requests_come_out_whole_however_the_bytes_are_split(
    bodies: list[tuple[bytes, bool]], cuts: list[int]
) -> None:
    stream = b"".join(_chunked(body, 7) if chunked else _sized(body) for body, chunked in bodies)
    assert [request.body for request in _read_all(_split(stream, cuts))] == [body for body, _ in bodies]


def test_a_request_is_taken_apart() -> None:
    (request,) = _read_all([_sized(b"{}", "X-Request-Id:  a%20b:1 \r\n")])
    headers = {"host": "x", "x-request-id": "a%20b:1", "content-length": "2"}
    assert request == Request("POST", "/v1/chat/completions", "a=1", headers, b"{}", keep_alive=True)


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        ("1.1", "", True),
        ("1.1", "Connection: Close\r\n", False),
        ("1.0", "", False),
        ("1.0", "Connection: keep-alive\r\n", True),
    ],
)
def test_keep_alive_follows_version_and_header(version: str, connection: str, keep_alive: bool) -> None:
    (request,) = _read_all([f"GET / HTTP/{version}\r\n{connection}\r\n".encode()])
    assert request.keep_alive is keep_alive


def test_chunk_extensions_and_trailers_are_skipped() -> None:
    head = b"POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n"
    stream = head + b"3;name=value\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n" + _sized(b"next")
    assert [request.body for request in _read_all([stream])] == [b"abc", b"next"]


def test_a_client_that_waits_for_the_word_to_go_on_is_seen_once() -> None:
    reader = RequestReader()
    reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert reader.next() is None
    assert (reader.take_continue(), reader.take_continue()) == (True, False)
    reader.feed(b"{}")
    assert reader.next() is not None
    assert not reader.take_continue()


def test_no_word_to_go_on_is_due_if_the_body_came_along() -> None:
    reader = RequestReader()
    reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")
    assert reader.next() is not None
    assert not reader.take_continue()


@pytest.mark.parametrize(
    ("stream", "status", "words"),
    [
        (b"\x16\x03\x01\x02\x00", 400, "speaks no TLS"),
        (b"NONSENSE\r\n\r\n", 400, "not HTTP/1.x"),
        (b"GET / HTTP/2\r\n\r\n", 400, "not HTTP/1.x"),
        (b"GET / HTTP/1.1\r\nbroken\r\n\r\n", 400, "no colon"),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "not a number"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * wire.MAX_HEAD, 431, "64 KiB"),
        (b"POST / HTTP/1.1\r\nContent-Length: 67108865\r\n\r\n", 413, "above 67108864 bytes"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, "hexadecimal"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5000, 400, "too long"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4000001\r\n", 413, "above 67108864 bytes"),
    ],
)
def test_bytes_that_are_no_request_are_refused(stream: bytes, status: int, words: str) -> None:
    with pytest.raises(BadRequestError, match=words) as caught:
        _read_all([stream])
    assert caught.value.status == status


def test_chunks_that_add_up_to_too_much_are_refused() -> None:
    with pytest.raises(BadRequestError):
        _read_all([_chunked(b"x" * 101, 10)], RequestReader(max_body=100))
    assert len(_read_all([_chunked(b"x" * 100, 10)], RequestReader(max_body=100))) == 1


def test_a_head_is_written_with_its_phrase_and_its_values_verbatim() -> None:
    assert head_of(429, [("Retry-After", " 1 ")]) == b"HTTP/1.1 429 Too Many Requests\r\nRetry-After:  1 \r\n\r\n"
    assert head_of(529, []) == b"HTTP/1.1 529 Status\r\n\r\n"
