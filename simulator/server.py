"""Listens, says where, and stops on a signal."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

from simulator.connection import Connection
from simulator.service import Service
from simulator.settings import Settings

BACKLOG = 4096
"""asyncio's 100 makes 400 new connections wait seconds for their SYN to be repeated."""


def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; raises `OSError` when the address or the ledger cannot be opened."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    service = Service(settings)
    connections: set[Connection] = set()
    server = await loop.create_server(
        lambda: Connection(service, connections), settings.host, settings.port, backlog=BACKLOG
    )
    _announce(*server.sockets[0].getsockname()[:2])
    await stop.wait()
    server.close()
    for connection in tuple(connections):
        connection.stop()
    service.close()


def _announce(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    line = {"event": "listening", "host": host, "port": port, "base_url": f"http://{shown}:{port}/v1"}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
