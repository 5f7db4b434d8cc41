"""What came back from an endpoint, before anybody judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """A whole HTTP answer; header names in lower case, the body inflated and bounded."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Break(StrEnum):
    """How a call ended without a whole answer."""

    NOT_SENT = "not_sent"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    OVERSIZE = "oversize"
    ENCODING = "encoding"


@dataclass(frozen=True, slots=True)
class Broken:
    """A call without a whole answer; `what` is the error's class, never its text."""

    how: Break
    what: str
