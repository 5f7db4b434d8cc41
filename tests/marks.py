"""Marked secrets, in every form in which they might hide, and a search that says how much it has looked at."""

from __future__ import annotations

import html
import json
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus

KEY = "sk-canary-5d1e0f"
EMAIL = "canary.person@example.org"
MARKER = "PROMPT-MARKER-77c2"
# One that almost every encoding writes in another way.
WIDE = 'Zeichen „7c" <\\> 鍵&'
_PIECE = 1 << 20
_OVERLAP = 1 << 10
_BEFORE = 150


def forms(mark: str) -> dict[str, bytes]:
    """Every way of writing a mark that is looked for, by its name: one that lies within a longer text, too."""
    escaped = json.dumps(mark)[1:-1]
    found = {
        "plain": mark.encode(),
        "JSON": escaped.encode(),
        "JSON, not ASCII": json.dumps(mark, ensure_ascii=False)[1:-1].encode(),
        "JSON in JSON": json.dumps(escaped)[1:-1].encode(),
        "Python": repr(mark)[1:-1].encode(),
        "escaped": mark.encode("unicode_escape"),
        "URL": quote(mark, safe="").encode(),
        "URL, lower case": quote(mark, safe="").lower().encode(),
        "form": quote_plus(mark).encode(),
        "HTML": html.escape(mark).encode(),
        "hex": mark.encode().hex().encode(),
        "UTF-16": mark.encode("utf-16-le"),
        **dict(_base64(mark.encode())),
    }
    return {name: text for name, text in found.items() if name == "plain" or text != found["plain"]}


def _base64(mark: bytes) -> Iterator[tuple[str, bytes]]:
    """What stays the same of its base64 wherever it begins within the encoded text."""
    for before in range(3):
        first, last = -(-8 * before // 6), 8 * (before + len(mark)) // 6
        padded = b"\0" * before + mark
        yield f"base64 {before}", b64encode(padded)[first:last]
        yield f"URL-safe base64 {before}", urlsafe_b64encode(padded)[first:last]


@dataclass
class Search:
    """Looks for marks wherever it is told to; `looked` counts the bytes of each place, `hits` names what it found."""

    marks: Iterable[str] = (KEY, EMAIL, MARKER, WIDE)
    hits: list[str] = field(default_factory=list)
    looked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._wanted = {f"{mark} ({name})": text for mark in self.marks if mark for name, text in forms(mark).items()}

    def text(self, place: str, text: str | bytes, which: str = "") -> None:
        """Look at a text; `which` says more of where it is than the place that its bytes count for."""
        content = text.encode("utf8", "surrogatepass") if isinstance(text, str) else text
        self.looked[place] += len(content)
        self._note(f"{place} {which}".strip(), self._found(content))

    def file(self, place: str, path: Path) -> None:
        """Look at a file of any size."""
        found: dict[str, str] = {}
        tail = b""
        with path.open("rb") as content:
            while piece := content.read(_PIECE):
                self.looked[place] += len(piece)
                found = self._found(tail + piece) | found
                tail = piece[-_OVERLAP:]
        self._note(f"{place} {path.name}", found)

    def headers(self, place: str, letters: Iterable[Mapping[str, bytes | str | None]]) -> None:
        """Look at the headers of messages."""
        for letter in letters:
            for name, value in letter.items():
                plain = value.encode() if isinstance(value, str) else value or b""
                self.text(place, name.encode() + b"=" + plain, name)

    def told(self) -> str:
        """How many bytes of each place it has looked at."""
        return ", ".join(f"{place} {size:,}" for place, size in sorted(self.looked.items()))

    def _found(self, content: bytes) -> dict[str, str]:
        """Each mark that is there, with what stands before it."""
        places = {mark: content.find(form) for mark, form in self._wanted.items()}
        return {mark: repr(content[max(0, at - _BEFORE) : at]) for mark, at in places.items() if at >= 0}

    def _note(self, where: str, found: Mapping[str, str]) -> None:
        self.hits += [f"{where}: {mark} after {before}" for mark, before in sorted(found.items())]
