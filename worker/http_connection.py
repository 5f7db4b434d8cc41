"""HTTP/1.1 for a few who ask often: connections stay open, and whoever is slow, silent or too many is hung up on."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple, cast

log = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
_HEAD_ENDS = b"\r\n\r\n"
_SWEEP_SECONDS = 1.0
_WORTH_ZIPPING = 1000


@dataclass(frozen=True)
class Limits:
    """What one who asks may take of the server."""

    connections: int = 128
    # Of all that has come and is not answered yet.
    request_bytes: int = 16_384
    # For a request to be whole and its answer taken.
    slow_seconds: float = 5.0
    # Longer than scrapes are apart.
    idle_seconds: float = 75.0


class Request(NamedTuple):
    """What was asked; whether the connection stays open, the answer may be zipped, and what is wrong with it."""

    path: str
    stays: bool
    zips: bool
    wrong: HTTPStatus | None = None


def understand(head: bytes) -> Request:
    """Read the head of a request, without the empty line.

    Nothing but a GET without a body leaves the connection open: of anything else it is not sure where it ends.
    """
    line, _, fields = head.partition(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        return Request("", stays=False, zips=False, wrong=HTTPStatus.BAD_REQUEST)
    if words[0] != "GET":
        return Request("", stays=False, zips=False, wrong=HTTPStatus.NOT_IMPLEMENTED)
    fields = b"\n" + fields.lower() + b"\r\n"
    wish = _field(fields, b"connection")
    stays = b"close" not in wish if words[2] == "HTTP/1.1" else b"keep-alive" in wish
    has_body = b"\ncontent-length" in fields or b"\ntransfer-encoding" in fields
    # A share of 0 means never; who gives another gets plain text, which is never wrong.
    accepted = _field(fields, b"accept-encoding")
    zips = b"gzip" in accepted and b"gzip;q=0" not in accepted.replace(b" ", b"")
    return Request(words[1].partition("?")[0], stays and not has_body, zips)


def _field(fields: bytes, name: bytes) -> bytes:
    return fields.partition(b"\n" + name + b":")[2].partition(b"\r\n")[0]


@dataclass(frozen=True)
class Answer:
    """A page; its bytes are put together once, however often it is sent."""

    status: HTTPStatus
    kind: str
    body: bytes
    _made: dict[tuple[bool, bool], bytes] = field(default_factory=dict, compare=False, repr=False)

    def to(self, request: Request) -> bytes:
        """Head and body as one piece."""
        wanted = request.stays, request.zips and len(self.body) >= _WORTH_ZIPPING
        if wanted not in self._made:
            self._made[wanted] = self._bytes(*wanted)
        return self._made[wanted]

    def _bytes(self, stays: bool, zips: bool) -> bytes:
        body = gzip.compress(self.body, 1) if zips else self.body
        lines = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.kind}",
            *(("Content-Encoding: gzip",) if zips else ()),
            f"Content-Length: {len(body)}",
            f"Connection: {'keep-alive' if stays else 'close'}",
        )
        return "\r\n".join(lines).encode() + _HEAD_ENDS + body


Page = Callable[[], Answer]


class Places:
    """Who is connected; when all places are taken, the longest idle makes room for a newcomer."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._taken: set[Connection] = set()

    def take(self, newcomer: Connection) -> None:
        """Give a place to a newcomer, or hang up on it when nobody is idle."""
        self._taken.add(newcomer)
        if len(self._taken) > self.limits.connections:
            leaving = min((one for one in self._taken if one.idle), key=lambda one: one.until, default=newcomer)
            self.give_back(leaving)
            leaving.hang_up()

    def give_back(self, one: Connection) -> None:
        """Forget one who has gone."""
        self._taken.discard(one)

    async def sweep(self) -> None:
        """Hang up on those whose time is over; for ever, since a timer for each request would cost more."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = clock()
            for one in [one for one in self._taken if one.until <= now]:
                one.hang_up()

    def clear(self) -> None:
        """Hang up on all."""
        for one in self._taken:
            one.hang_up()


class Connection(asyncio.Protocol):
    """One who asks: requests are answered in order, each when the client has taken the answer before."""

    def __init__(self, pages: Mapping[str, Page], places: Places) -> None:
        self._pages = pages
        self._places = places
        self._limits = places.limits
        self._clock = asyncio.get_running_loop().time
        self._read = b""
        self._answers = True
        self._begin()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place."""
        self._transport = cast(asyncio.Transport, transport)
        # To be told of whatever the socket does not take at once.
        self._transport.set_write_buffer_limits(0)
        self._places.take(self)

    def data_received(self, data: bytes) -> None:
        """Answer once a request is whole."""
        if self.idle:
            self._begin()
        self._read += data
        if len(self._read) > self._limits.request_bytes:
            self.hang_up()
        else:
            self._go_on()

    def pause_writing(self) -> None:
        """Answer no more until this answer is taken."""
        self._answers = False

    def resume_writing(self) -> None:
        """Go on with what was asked meanwhile."""
        if not self._transport.is_closing():
            self._answers = True
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._places.give_back(self)

    def hang_up(self) -> None:
        """End it as it stands."""
        self._answers = False
        self._transport.abort()

    def _begin(self) -> None:
        self.idle = False
        self.until = self._clock() + self._limits.slow_seconds

    def _go_on(self) -> None:
        while self._answers and _HEAD_ENDS in self._read:
            head, _, self._read = self._read.partition(_HEAD_ENDS)
            self._answer(understand(head))
        if self._answers and not self._read:
            self.idle = True
            self.until = self._clock() + self._limits.idle_seconds

    def _answer(self, request: Request) -> None:
        try:
            said = self._page(request)().to(request)
        except Exception as error:
            log.warning("health.broken", extra={"what": type(error).__name__})
            self.hang_up()
            return
        self._transport.write(said)
        if not request.stays:
            self._answers = False
            self._transport.close()

    def _page(self, request: Request) -> Page:
        if request.wrong:
            return _saying(request.wrong)
        return self._pages.get(request.path) or _saying(HTTPStatus.NOT_FOUND)


def _saying(status: HTTPStatus) -> Page:
    return lambda: Answer(status, TEXT, f"{status.phrase.lower()}\n".encode())
