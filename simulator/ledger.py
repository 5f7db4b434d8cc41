"""The append-only record of calls, one JSON line for each call that ended."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One call: times are seconds since 1970, `status` is None when no status line was sent."""

    id: str
    attempt: int | None
    number: int
    body_sha256: str
    t_start: float
    t_end: float
    bytes_sent: int
    outcome: str
    status: int | None
    billed: bool


class Ledger:
    """Writes each line with one system call, so that a reader or a killed process never leaves half a line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, entry: Entry) -> None:
        """Appends one line."""
        os.write(self._file, line_of(entry))

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def line_of(entry: Entry) -> bytes:
    """One entry as a line of JSON."""
    fields = {name: getattr(entry, name) for name in Entry.__slots__}
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
