"""A small client over plain sockets, which sees every byte the simulator sends."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from tests.simulated import Simulated


@dataclass
class Got:
    """A response read to its end."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def said(self) -> str:
        """The content of the answer."""
        content: str = self.json["choices"][0]["message"]["content"]
        return content

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request_bytes(text: str = "hello", row: str = "r-1", attempt: int = 1, **params: Any) -> bytes:
    """One chat call with one user message."""
    body = json.dumps({"model": "small", "messages": [{"role": "user", "content": text}], **params}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: {quote(row, safe='')}:{attempt}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def pipelined(sock: socket.socket, *requests: bytes) -> list[Got]:
    """Sends all requests at once and reads an answer for each."""
    sock.sendall(b"".join(requests))
    stream = sock.makefile("rb")
    return [_read_sized(stream) for _ in requests]


def _read_sized(stream: BinaryIO) -> Got:
    status = int(stream.readline().split()[1])
    headers = http.client.parse_headers(stream)
    return Got(status, headers, stream.read(int(headers["Content-Length"])))


def connect(sim: Simulated) -> socket.socket:
    """A connection with a time-out of 20 s."""
    return socket.create_connection(("127.0.0.1", sim.port), timeout=20)


def exchange(sock: socket.socket, request: bytes) -> Got:
    """One request and its answer on an open connection."""
    sock.sendall(request)
    return receive(sock)


def receive(sock: socket.socket) -> Got:
    """The next answer; bytes that come right behind it are lost."""
    response = http.client.HTTPResponse(sock)
    response.begin()
    return Got(response.status, response.headers, response.read())


def ask(sim: Simulated, text: str = "hello", row: str = "r-1", attempt: int = 1, **params: Any) -> Got:
    """One chat call on a connection of its own."""
    with connect(sim) as sock:
        return exchange(sock, request_bytes(text, row, attempt, **params))


def get(sim: Simulated, path: str, key: str | None = None) -> Got:
    """One GET on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", sim.port, timeout=20)
    connection.request("GET", path, headers={} if key is None else {"Authorization": f"Bearer {key}"})
    response = connection.getresponse()
    got = Got(response.status, response.headers, response.read())
    connection.close()
    return got


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    """Waits for a state, with a deadline."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "did not come about in time"
        time.sleep(0.01)


def raw(sim: Simulated, request: bytes) -> bytes:
    """All bytes until the server closes; a reset raises."""
    with connect(sim) as sock:
        sock.sendall(request)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def timed(act: Callable[[], object]) -> float:
    """How many seconds it takes."""
    started = time.monotonic()
    act()
    return time.monotonic() - started


def inflated(packed: bytes) -> Iterator[bytes]:
    """Unpacks gzip piece by piece."""
    unpacker = zlib.decompressobj(31)
    piece = unpacker.decompress(packed, 1 << 20)
    while piece:
        yield piece
        piece = unpacker.decompress(unpacker.unconsumed_tail, 1 << 20)


def resident(sim: Simulated) -> int:
    """Bytes of memory the simulator holds."""
    assert sim.process is not None
    pages = int(Path(f"/proc/{sim.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
