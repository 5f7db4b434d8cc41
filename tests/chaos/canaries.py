"""Invariant I7: strings that must appear in no log, metric, dead-letter header or error text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

KEY = "sk-canary-5d1e0f"
EMAIL = "canary.person@example.org"
MARKER = "PROMPT-MARKER-77c2"
_PIECE = 1 << 20


def strings(*more: str) -> tuple[str, ...]:
    """The canaries, and secrets that exist only at run time."""
    return (KEY, EMAIL, MARKER, *more)


def hits_in_text(canaries: Iterable[str], texts: Iterable[tuple[str, str]]) -> list[str]:
    """Where a canary occurs, as `place: canary`; each text comes with the name of its place."""
    return [f"{place}: {canary}" for place, text in texts for canary in canaries if canary in text]


def hits_in_files(canaries: Iterable[str], files: Iterable[Path]) -> list[str]:
    """The same over files of any size."""
    wanted = tuple(canaries)
    return [f"{path.name}: {canary}" for path in files for canary in _found(path, wanted)]


def hits_in_headers(canaries: Iterable[str], letters: Iterable[Mapping[str, bytes | None]]) -> list[str]:
    """The same over the headers of dead letters."""
    texts = (
        (name, (value or b"").decode("utf8", "replace")) for headers in letters for name, value in headers.items()
    )
    return hits_in_text(tuple(canaries), ((f"dead letter header {name}", f"{name}={value}") for name, value in texts))


def _found(path: Path, canaries: tuple[str, ...]) -> set[str]:
    found: set[str] = set()
    tail = ""
    with path.open(errors="replace") as lines:
        while piece := lines.read(_PIECE):
            found |= {canary for canary in canaries if canary in tail + piece}
            tail = piece[-256:]
    return found
