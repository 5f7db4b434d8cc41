"""Free ports on loopback, remembered in a file so that a restart serves at the same address."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from deploy.local.errors import StartError

HOST = "127.0.0.1"
# Below the ranges from which systems number outgoing connections, so that no client
# connection can take the port of a server that is down for a moment.
FIRST, LAST = 20_000, 29_999
TRIES = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def choose(
    names: Iterable[str],
    known: dict[str, int],
    free: Callable[[int], bool] = is_free,
    draw: Callable[[], int] = lambda: random.randint(FIRST, LAST),  # noqa: S311
) -> dict[str, int]:
    """Return a port for each name: the known one, else a free one that no other name has."""
    chosen = dict(known)
    for name in names:
        if name not in chosen:
            chosen[name] = _draw_free(set(chosen.values()), free, draw)
    return chosen


def _draw_free(taken: set[int], free: Callable[[int], bool], draw: Callable[[], int]) -> int:
    for _ in range(TRIES):
        port = draw()
        if port not in taken and free(port):
            return port
    raise StartError(f"No free port between {FIRST} and {LAST} on {HOST} in {TRIES} tries; stop some local servers.")


def remembered(path: Path, names: Iterable[str]) -> dict[str, int]:
    """Return the ports kept in `path`, choosing and keeping those that are new."""
    known = json.loads(path.read_text()) if path.exists() else {}
    ports = choose(names, known)
    if ports != known:
        path.write_text(json.dumps(ports))
    return ports


def require_free(server: str, ports: Iterable[int], memory: Path) -> None:
    """Raise StartError when another program listens where the server has to."""
    for port in ports:
        if not is_free(port):
            raise StartError(
                f"Port {port} on {HOST}, which {server} is to serve on, is taken by another program; "
                f"stop that program, or edit {memory} to choose another port."
            )
