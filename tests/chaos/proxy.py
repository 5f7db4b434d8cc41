"""A TCP proxy that misbehaves on demand: slow, thin, stalled, refusing, resetting, or dropping a chosen reply."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.chaos.toxics import Toxics, Trap

HOST = "127.0.0.1"
_CHUNK = 65_536
T = TypeVar("T")


@dataclass(eq=False)
class _Link:
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    trap: Trap | None = None
    answered: int = 0
    seen: bytes = b""

    def reset(self) -> None:
        for side in (self.client, self.server):
            raw = side.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            side.transport.abort()


class Proxy:
    """One listener in front of one port of loopback; its own thread runs it, the test steers it."""

    def __init__(self, port: int, seed: int = 0) -> None:
        self.port = port
        self.toxics = Toxics()
        self.target = 0
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._links: set[_Link] = set()
        self._traps: list[Trap] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{port}", daemon=True)

    def start(self, target: int) -> None:
        """Listen, and forward to `target`."""
        self.target = target
        self._open.set()
        self._thread.start()
        self._do(self._listen())

    def close(self) -> None:
        """End everything."""
        self._do(self._go_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def down(self) -> None:
        """Cut every connection and refuse new ones."""
        self._do(self._go_down())

    def up(self) -> None:
        """Listen again."""
        self._do(self._listen())

    def stall(self) -> None:
        """Accept and keep connections, and forward nothing."""
        self._do(self._stall(True))

    def flow(self) -> None:
        """Forward again what was held back."""
        self._do(self._stall(False))

    def reset(self) -> int:
        """End every connection with RST; says how many there were."""
        return self._do(self._reset())

    def set_trap(self, trap: Trap) -> Trap:
        """Lay a trap for the next matching requests."""
        self._traps.append(trap)
        return trap

    def heal(self) -> None:
        """Take every toxic and trap away; connections that a trap holds are cut."""
        self.toxics = Toxics()
        self._traps.clear()
        self._do(self._free())

    def _do(self, step: Coroutine[Any, Any, T]) -> T:
        done: Future[T] = asyncio.run_coroutine_threadsafe(step, self._loop)
        return done.result(10)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, HOST, self.port, limit=_CHUNK)

    async def _go_down(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._reset()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _stall(self, stalled: bool) -> None:
        if stalled:
            self._open.clear()
        else:
            self._open.set()

    async def _reset(self) -> int:
        links = list(self._links)
        for link in links:
            link.reset()
        return len(links)

    async def _free(self) -> None:
        self._open.set()
        for link in list(self._links):
            if link.trap is not None:
                link.reset()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._carry(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        server_reader, server_writer = await asyncio.open_connection(HOST, self.target, limit=_CHUNK)
        link = _Link(writer, server_writer)
        self._links.add(link)
        asking = asyncio.create_task(self._pump(reader, server_writer, lambda data: self._request(link, data)))
        answering = asyncio.create_task(self._pump(server_reader, writer, lambda data: self._reply(link, data)))
        try:
            await asyncio.wait([asking, answering], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.discard(link)
            for task in (asking, answering):
                task.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)
            writer.transport.abort()
            server_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: Callable[[bytes], bytes]
    ) -> None:
        while data := await reader.read(_CHUNK):
            await self._open.wait()
            await self._hold_back(len(data))
            if left := passes(data):
                writer.write(left)
                await writer.drain()

    async def _hold_back(self, size: int) -> None:
        toxics = self.toxics
        wait = toxics.latency + toxics.jitter * self._random.random()
        if toxics.bytes_per_second:
            wait += size / toxics.bytes_per_second
        if wait:
            await asyncio.sleep(wait)

    def _request(self, link: _Link, data: bytes) -> bytes:
        """Let a request pass unless a trap keeps it."""
        trap = link.trap or next((t for t in self._traps if t.caught < t.times and t.matches(data)), None)
        if trap is None:
            return data
        if link.trap is None:
            link.trap = trap
            trap.caught += 1
        if trap.keep == "reply":
            return data
        trap.sprung.set()
        if trap.reset:
            link.reset()
        return b""

    def _reply(self, link: _Link, data: bytes) -> bytes:
        """Let a reply pass unless its request was caught, or the connection has given its share."""
        if link.trap is not None:
            link.seen = (link.seen + data)[-64:]
            if link.seen.endswith(link.trap.reply_ends):
                link.trap.sprung.set()
                if link.trap.reset:
                    link.reset()
            return b""
        link.answered += len(data)
        if self.toxics.cut_after_bytes is not None and link.answered > self.toxics.cut_after_bytes:
            link.reset()
            return b""
        return data
