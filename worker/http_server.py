"""A small HTTP server on a thread of its own, so that a slow reader cannot slow the work.

One thread with an event loop of its own serves all who ask, and all who have come within a moment together: each time
it wakes up it takes the interpreter from the work, which costs the work several times what an answer does.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
import time
from collections.abc import Mapping

from worker.http_connection import Connection, Limits, Page, Places

_BACKLOG = 128
_STOP_SECONDS = 5
_WAKE_EVERY_SECONDS = 0.1


class HttpServer:
    """Answers with pages, by path; port 0 takes a free one. Raises `OSError` when the port is taken."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page], limits: Limits | None = None) -> None:
        self._pages = pages
        self._places = Places(limits or Limits())
        self._socket = socket.create_server((host, port), backlog=_BACKLOG)
        self._address = self._socket.getsockname()
        self._loop = asyncio.SelectorEventLoop(_Pacing())
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
        """Stop answering, and hang up on whoever is connected."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        sweeping = asyncio.create_task(self._places.sweep())
        server = await self._loop.create_server(
            lambda: Connection(self._pages, self._places), sock=self._socket, backlog=_BACKLOG
        )
        async with server:
            await self._ended.wait()
            self._places.clear()
        sweeping.cancel()


class _Pacing(selectors.DefaultSelector):
    """Wakes up ten times a second at most, then for all who have come; at once for one who comes after a pause."""

    _next = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            return super().select(0)
        # Before it looks and not after: each look gives up the interpreter and takes it back.
        time.sleep(max(self._next - time.monotonic(), 0))
        ready = super().select(timeout)
        self._next = time.monotonic() + _WAKE_EVERY_SECONDS
        return ready
