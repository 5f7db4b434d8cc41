"""The search finds a mark in every form, wherever it begins, and says how much it has seen."""

from __future__ import annotations

import base64
import html
import json
import random
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tests.marks import EMAIL, KEY, MARKER, WIDE, Search

MARKS = (KEY, EMAIL, MARKER, WIDE)


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("before", ["", "x", "xy", "xyz", "鍵"])
def test_a_mark_is_found_in_every_form(mark: str, before: str) -> None:
    text = f"{before}{mark} and more"
    hidden = [
        text.encode(),
        json.dumps({"prompt": text}).encode(),
        json.dumps(json.dumps({"prompt": text})).encode(),
        repr(text).encode(),
        quote(text).encode(),
        quote_plus(text).encode(),
        html.escape(text).encode(),
        text.encode().hex().encode(),
        base64.b64encode(text.encode()),
        base64.urlsafe_b64encode(text.encode()),
    ]
    for content in hidden:
        search = Search()
        search.text("somewhere", content)
        assert mark in "".join(search.hits), content


def test_what_is_no_mark_is_no_hit() -> None:
    search = Search()
    search.text("noise", random.Random(7).randbytes(100_000))
    search.text("noise", "sk-canary, canary.person at example.org, PROMPT-MARKER")
    assert search.hits == []


def test_a_mark_on_the_edge_of_two_pieces_of_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_bytes(b"." * ((1 << 20) - 5) + MARKER.encode())
    search = Search()
    search.file("logs", path)
    assert search.hits == [f"logs worker.log: {MARKER} (plain) after b'{'.' * 150}'"]


def test_it_says_how_much_it_has_looked_at() -> None:
    search = Search()
    search.text("logs", "ab")
    search.headers("headers", [{"a": b"bc", "d": None}])
    assert search.told() == "headers 6, logs 2"
