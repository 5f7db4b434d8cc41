"""What the health server makes of the head of a request, and of a page."""

from __future__ import annotations

import gzip
from http import HTTPStatus

import pytest

from worker.http_connection import TEXT, Answer, Request, understand

LINE = b"GET /metrics HTTP/1.1\r\nHost: x"
OLD = b"GET /metrics HTTP/1.0\r\nHost: x"


@pytest.mark.parametrize(
    ("head", "stays"),
    [
        (LINE, True),
        (LINE + b"\r\nConnection: close", False),
        (LINE + b"\r\nCONNECTION:TE, Close\r\nTE: trailers", False),
        (LINE + b"\r\nConnection: keep-alive", True),
        (LINE + b"\r\nX-Connection: close", True),
        (LINE + b"\r\nX: close", True),
        (LINE + b"\r\nContent-Length: 5", False),
        (LINE + b"\r\nTransfer-Encoding: chunked", False),
        (OLD, False),
        (OLD + b"\r\nConnection: Keep-Alive", True),
        (OLD + b"\r\nConnection: keep-alive\r\nContent-Length: 5", False),
    ],
)
def test_a_connection_stays_open_unless_it_was_told_or_may_hold_something_else(head: bytes, stays: bool) -> None:
    assert understand(head) == Request("/metrics", stays=stays, zips=False)


@pytest.mark.parametrize(
    ("head", "wrong"),
    [
        (b"", HTTPStatus.BAD_REQUEST),
        (b"nonsense", HTTPStatus.BAD_REQUEST),
        (b"GET  /metrics HTTP/1.1", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics HTTP/2.0", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics", HTTPStatus.BAD_REQUEST),
        (b"\xff\xfe\xfd", HTTPStatus.BAD_REQUEST),
        (b"POST /metrics HTTP/1.1", HTTPStatus.NOT_IMPLEMENTED),
        (b"HEAD /metrics HTTP/1.1", HTTPStatus.NOT_IMPLEMENTED),
    ],
)
def test_after_what_is_no_plain_question_nothing_more_is_read(head: bytes, wrong: HTTPStatus) -> None:
    request = understand(head)
    assert (request.wrong, request.stays) == (wrong, False)


@pytest.mark.parametrize(
    ("accepts", "zips"),
    [("gzip", True), ("deflate, GZIP;q=1.0, *;q=0.5", True), ("gzip; q=0", False), ("identity", False), ("", False)],
)
def test_an_answer_is_zipped_for_those_who_take_it(accepts: str, zips: bool) -> None:
    assert understand(LINE + f"\r\nAccept-Encoding: {accepts}".encode()).zips is zips


def test_a_query_does_not_name_another_page() -> None:
    assert understand(b"GET /metrics?name[]=x HTTP/1.1").path == "/metrics"


def test_an_answer_is_put_together_once_for_each_who_takes_it_alike() -> None:
    answer = Answer(HTTPStatus.OK, TEXT, b"x 1\n" * 500)
    kept = Request("/metrics", stays=True, zips=True)
    assert answer.to(kept) is answer.to(kept)
    head, _, body = answer.to(kept).partition(b"\r\n\r\n")
    assert gzip.decompress(body) == answer.body
    assert f"Content-Length: {len(body)}\r\nConnection: keep-alive".encode() in head
    assert b"\r\nContent-Encoding: gzip\r\n" in head
    plain, _, body = answer.to(Request("/metrics", stays=False, zips=False)).partition(b"\r\n\r\n")
    assert body == answer.body
    assert plain.endswith(b"\r\nContent-Length: 2000\r\nConnection: close")
    assert b"Encoding" not in plain


def test_a_few_words_are_not_worth_zipping() -> None:
    assert Answer(HTTPStatus.OK, TEXT, b"ok\n").to(Request("/", stays=True, zips=True)).endswith(b"\r\n\r\nok\n")
