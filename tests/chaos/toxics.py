"""What a proxy may do to its connections, and the requests that a trap can wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

# What Postgres sends last when a statement outside a transaction block has been committed.
POSTGRES_READY = b"Z\x00\x00\x00\x05I"


@dataclass(frozen=True)
class Toxics:
    """What every connection suffers: seconds before each piece, bytes a second, bytes until an answer is cut."""

    latency: float = 0.0
    jitter: float = 0.0
    bytes_per_second: float | None = None
    cut_after_bytes: int | None = None


@dataclass
class Trap:
    """Waits for requests that match, and keeps their replies (or the requests themselves) from arriving.

    With `reset` the connection ends with RST once the server has replied in full: an ambiguous commit. Without, it
    stays open and silent, so that a test can do something to the client in the meantime. `sprung` tells that one
    was caught and, for a kept reply, that the server has given it.
    """

    matches: Callable[[bytes], bool]
    times: int = 1
    keep: Literal["reply", "request"] = "reply"
    reset: bool = True
    reply_ends: bytes = b""
    caught: int = 0
    sprung: threading.Event = field(default_factory=threading.Event)


def claims(data: bytes) -> bool:
    """Whether this is a worker's claim."""
    return b"WITH incoming AS" in data


def commits_claims(data: bytes) -> bool:
    """Whether this ends the transaction of a claim, the only one that a worker opens by itself."""
    return b"COMMIT\0" in data


def finishes(data: bytes) -> bool:
    """Whether this is a worker's write of ends."""
    return b"WITH ended AS" in data


def commits_offsets(data: bytes) -> bool:
    """Whether one of these Kafka requests is an OffsetCommit (api key 8); a piece begins with a whole request."""
    at = 0
    while at + 6 <= len(data):
        if data[at + 4 : at + 6] == b"\x00\x08":
            return True
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    return False
