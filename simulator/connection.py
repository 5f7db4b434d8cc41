"""One client connection: bytes in, requests one after the other, bytes out."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import cast

from simulator import errors
from simulator.control import is_chat, reply_to_other
from simulator.delivery import End, plain_steps
from simulator.exchange import Exchange
from simulator.replies import Reply, json_reply
from simulator.service import Service
from simulator.wire import BadRequestError, Request, RequestReader

_MAX_PIPELINED = 256 * 1024
_LINGER_S = 2.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.Protocol):
    """Serves one connection; at most one exchange is open, later requests wait in the reader."""

    def __init__(self, service: Service, open_connections: set[Connection]) -> None:
        self._service = service
        self._open = open_connections
        self._reader = RequestReader()
        self._exchange: Exchange | None = None
        self._advancing = False
        self._draining = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self.paused = False
        self.gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open.add(self)
        self._service.connections += 1
        self._watch_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._open.discard(self)
        self._service.connections -= 1
        if self._exchange is not None:
            self._exchange.client_left()

    def data_received(self, data: bytes) -> None:
        if self._draining:
            return
        self._reader.feed(data)
        if self._exchange is None:
            self._advance()
        elif self._reader.buffered > _MAX_PIPELINED:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self._exchange is not None:
            self._exchange.resume()

    def write(self, data: bytes) -> None:
        """Writes to the client."""
        self._transport.write(data)

    def finish(self, end: End) -> None:
        """Ends the open exchange; then the next request, or the end of the connection."""
        self._exchange = None
        if end is End.NEXT:
            self._transport.resume_reading()
            self._advance()
        elif end is End.CLOSE:
            self._transport.close()
        else:
            self._reset()

    def stop(self) -> None:
        """Drops the connection because the simulator stops."""
        if self._exchange is not None:
            self._exchange.stop()
        self._transport.abort()

    def _advance(self) -> None:
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._exchange is None and not self._transport.is_closing() and self._serve_next():
                pass
        finally:
            self._advancing = False
        self._watch_idle()

    def _serve_next(self) -> bool:
        try:
            request = self._reader.next()
        except BadRequestError as error:
            self._refuse_bytes(error)
            return False
        if request is None:
            if self._reader.take_continue():
                self._transport.write(_CONTINUE)
            return False
        self._serve(request)
        return True

    def _serve(self, request: Request) -> None:
        if is_chat(request):
            self._service.count_headers(request.headers)
            self._exchange = Exchange(self._service, self, request)
            self._exchange.start(request.headers)
            return
        self._send(reply_to_other(self._service, request), keep_alive=request.keep_alive)
        if not request.keep_alive:
            self._transport.close()

    def _send(self, reply: Reply, *, keep_alive: bool) -> None:
        for step in plain_steps(reply, keep_alive=keep_alive):
            self._transport.write(step.data)

    def _refuse_bytes(self, error: BadRequestError) -> None:
        # The client may still be sending: a close now would make its kernel throw the answer away.
        self._draining = True
        self._send(json_reply(error.status, errors.body(error.status, {"message": str(error)})), keep_alive=False)
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_S, self._transport.close)

    def _watch_idle(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        timeout_s = self._service.script.idle_timeout_s
        if timeout_s is not None and self._exchange is None:
            self._idle_timer = asyncio.get_running_loop().call_later(timeout_s, self._transport.close)

    def _reset(self) -> None:
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
