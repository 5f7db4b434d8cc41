"""`/metrics`, `/healthz` and `/readyz`, on a thread of their own so that a slow reader cannot slow the work.

One thread with an event loop of its own serves all who ask, and all who have come within a moment together: each time
it wakes up it takes the interpreter from the work, which costs the work several times what an answer does.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

log = logging.getLogger(__name__)

# Says what is wrong, or None.
Check = Callable[[], str | None]
# Status, content type and body.
Page = Callable[[], tuple[HTTPStatus, str, bytes]]
_MOST_AT_ONCE = 128
_LONGEST_REQUEST = 16_384
_SOCKET_SECONDS = 5
# Rendering some hundred series takes milliseconds from the work: a text serves all who ask within a second.
_RENDER_EVERY_SECONDS = 1.0
_GATHER_SECONDS = 0.03
_TEXT = "text/plain; charset=utf-8"


class HealthServer:
    """Answers probes and scrapes; port 0 takes a free one. Raises `OSError` when the port is taken."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        *,
        alive: Check,
        ready: Check,
    ) -> None:
        self._pages = {
            "/metrics": Exposition(registry, time.monotonic).page,
            "/healthz": _verdict(alive),
            "/readyz": _verdict(ready),
        }
        self._socket = socket.create_server((host, port), backlog=_MOST_AT_ONCE)
        self._address = self._socket.getsockname()
        self._loop = asyncio.SelectorEventLoop(_Gathering())
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    @property
    def host(self) -> str:
        """The address it listens on."""
        return str(self._address[0])

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_SOCKET_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        open_: set[_Exchange] = set()
        server = await self._loop.create_server(lambda: _Exchange(self._pages, open_), sock=self._socket)
        async with server:
            await self._ended.wait()
            for exchange in [*open_]:
                exchange.hang_up()


class _Gathering(selectors.DefaultSelector):
    """Wakes up for all who have come within a moment, not for each."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        if not ready or timeout == 0:
            return ready
        time.sleep(_GATHER_SECONDS)
        return super().select(0)


class _Exchange(asyncio.Protocol):
    """One request and its answer; whoever is slow at either, or comes when too many are at it, is hung up on."""

    def __init__(self, pages: dict[str, Page], open_: set[_Exchange]) -> None:
        self._pages = pages
        self._open = open_
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place."""
        self._transport = cast(asyncio.Transport, transport)
        self._late = asyncio.get_running_loop().call_later(_SOCKET_SECONDS, self._transport.abort)
        if len(self._open) >= _MOST_AT_ONCE:
            self._transport.abort()
        else:
            self._open.add(self)

    def data_received(self, data: bytes) -> None:
        """Answer once the request is whole."""
        self._read += data
        if b"\r\n\r\n" in self._read:
            self._answer(self._read.split(b"\r\n", 1)[0])
        elif len(self._read) > _LONGEST_REQUEST:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._late.cancel()
        self._open.discard(self)

    def hang_up(self) -> None:
        """End it as it stands."""
        self._transport.abort()

    def _answer(self, line: bytes) -> None:
        try:
            status, kind, body = self._page(line.decode("latin-1").split(" "))()
        except Exception as error:
            log.warning("health.broken", extra={"what": type(error).__name__})
            self._transport.abort()
            return
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        self._transport.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        self._transport.close()

    def _page(self, words: list[str]) -> Page:
        if len(words) != 3:
            return _saying(HTTPStatus.BAD_REQUEST)
        if words[0] != "GET":
            return _saying(HTTPStatus.NOT_IMPLEMENTED)
        return self._pages.get(words[1].partition("?")[0]) or _saying(HTTPStatus.NOT_FOUND)


class Exposition:
    """All series as text, rendered anew when the last one is a second old, however many ask.

    `clock` gives seconds that never go back. For one thread.
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._stale_at = float("-inf")
        self._text = b""

    def page(self) -> tuple[HTTPStatus, str, bytes]:
        """Status, content type and text."""
        if (now := self._clock()) >= self._stale_at:
            self._text = generate_latest(self._registry)
            self._stale_at = now + _RENDER_EVERY_SECONDS
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, self._text


def _verdict(check: Check) -> Page:
    def page() -> tuple[HTTPStatus, str, bytes]:
        problem = check()
        if problem:
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{problem}\n".encode()
        return HTTPStatus.OK, _TEXT, b"ok\n"

    return page


def _saying(status: HTTPStatus) -> Page:
    return lambda: (status, _TEXT, f"{status.phrase.lower()}\n".encode())
