"""The HTTP/1.1 of the endpoint: bytes to requests, and heads of responses to bytes. No sockets here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

MAX_HEAD = 64 * 1024
MAX_CHUNK_LINE = 4096
MAX_BODY = 64 * 1024 * 1024
_CRLF = b"\r\n"
_FIRST_BYTES = frozenset(b"\r\nABCDEFGHIJKLMNOPQRSTUVWXYZ")
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class BadRequestError(Exception):
    """Bytes that are no request this endpoint reads; after it the connection is closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Request:
    """One whole request; header names are lower case, the last of a repeated header wins."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    keep_alive: bool


class RequestReader:
    """Cuts a stream of bytes into requests; pipelined ones come out one by one."""

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._max_body = max_body
        self._buffer = bytearray()
        self._scanned = 0
        self._head: Request | None = None
        self._length: int | None = None
        self._chunks: bytearray | None = None
        self._wants_continue = False

    @property
    def buffered(self) -> int:
        """Bytes received and not yet given out."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Takes what the socket gave."""
        self._buffer += data

    def next(self) -> Request | None:
        """The next whole request, or None until more bytes come; raises `BadRequestError`."""
        if self._head is None and not self._read_head():
            return None
        done = self._read_chunks() if self._chunks is not None else self._read_body()
        if not done:
            return None
        request, self._head = self._head, None
        return request

    def take_continue(self) -> bool:
        """Whether the client waits for `100 Continue` before its body; true once for each request."""
        wanted, self._wants_continue = self._wants_continue and self._head is not None, False
        return wanted

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
        if end < 0:
            self._scanned = len(self._buffer)
            self._check_head()
            return False
        lines = self._buffer[:end].decode("latin-1").lstrip("\r\n").split("\r\n")
        del self._buffer[: end + 4]
        self._scanned = 0
        self._head = _read_request_line(lines[0])
        _read_headers(lines, self._head.headers)
        self._begin_body(self._head)
        return True

    def _check_head(self) -> None:
        if self._buffer and self._buffer[0] not in _FIRST_BYTES:
            raise BadRequestError(400, "The bytes are not HTTP/1.x; this endpoint speaks no TLS")
        self._check_head_size()

    def _check_head_size(self) -> None:
        if len(self._buffer) > MAX_HEAD:
            raise BadRequestError(431, "The head of the request is above 64 KiB")

    def _begin_body(self, head: Request) -> None:
        headers = head.headers
        connection = headers.get("connection", "").lower()
        if head.keep_alive:
            head.keep_alive = connection != "close"
        else:
            head.keep_alive = connection == "keep-alive"
        self._wants_continue = headers.get("expect", "").lower() == "100-continue"
        self._chunks = bytearray() if "chunked" in headers.get("transfer-encoding", "").lower() else None
        declared = headers.get("content-length", "0")
        if not declared.isdecimal():
            raise BadRequestError(400, "Content-Length is not a number")
        self._length = int(declared)
        self._check_size(self._length)

    def _check_size(self, size: int) -> None:
        if size > self._max_body:
            raise BadRequestError(413, f"The body is above {self._max_body} bytes")

    def _read_body(self) -> bool:
        length = self._length or 0
        if len(self._buffer) < length or self._head is None:
            return False
        self._head.body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return True

    def _read_chunks(self) -> bool:
        chunks = self._chunks
        while chunks is not None and self._head is not None:
            line_end = self._buffer.find(_CRLF)
            if line_end < 0:
                self._check_chunk_line()
                return False
            size = _chunk_size(bytes(self._buffer[:line_end]))
            if size == 0:
                return self._end_chunks(line_end, bytes(chunks))
            self._check_size(len(chunks) + size)
            start, end = line_end + 2, line_end + 2 + size
            if len(self._buffer) < end + 2:
                return False
            chunks += self._buffer[start:end]
            del self._buffer[: end + 2]
        return False

    def _check_chunk_line(self) -> None:
        if len(self._buffer) > MAX_CHUNK_LINE:
            raise BadRequestError(400, "The size line of a chunk is too long")

    def _end_chunks(self, line_end: int, body: bytes) -> bool:
        end = self._buffer.find(b"\r\n\r\n", line_end)
        if end < 0:
            self._check_head_size()
            return False
        if self._head is not None:
            self._head.body = body
        del self._buffer[: end + 4]
        return True


def _read_request_line(line: str) -> Request:
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequestError(400, "The request line is not HTTP/1.x")
    path, _, query = parts[1].partition("?")
    return Request(parts[0], path, query, {}, b"", keep_alive=parts[2] != "HTTP/1.0")


def _read_headers(lines: list[str], headers: dict[str, str]) -> None:
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequestError(400, "A header line has no colon")
        headers[name.lower()] = value.strip()


def _chunk_size(line: bytes) -> int:
    try:
        return int(line.split(b";")[0], 16)
    except ValueError as error:
        raise BadRequestError(400, "The size of a chunk is not a hexadecimal number") from error


def head_of(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """The status line and headers of a response, up to and with the empty line."""
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")


def chunk_of(data: bytes) -> bytes:
    """One chunk of a chunked body; empty data gives the last chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)
