"""Nothing that others wrote reaches a terminal as anything but text."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from control.dead_letters import terminal
from control.reconcile import cli as reconciliations
from control.reconcile.reconciling import Account


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain 日本 🦊 é", "plain 日本 🦊 é"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\rd\x00", "a\\nb\\tc\\rd\\x00"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("abc\u202etxt\u2066\u200f", "abc\\u202etxt\\u2066\\u200f"),
        ("\u2028\ufeff\ud800", "\\u2028\\ufeff\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_spelled_out(text: str, shown: str) -> None:
    assert terminal.visible(text) == shown


@given(st.text())
def test_any_text_becomes_printable(text: str) -> None:
    assert terminal.visible(text).isprintable()
    assert terminal.line([text]).isprintable()
    assert all(" " <= character <= "~" for character in terminal.as_json({"id": text}))
    assert json.loads(terminal.as_json({"id": text})) == {"id": text}


def test_long_text_is_cut_and_says_by_how_much() -> None:
    assert terminal.visible("x" * 10, 4) == "xxxx... (6 more characters)"
    assert terminal.visible("x" * 4, 4) == "xxxx"


def printed(act: str, *values: str) -> str:
    out = io.StringIO()
    # Markup is on in this console: the text is inert by itself.
    console = Console(file=out, force_terminal=True, color_system="truecolor", width=200)
    if act == "table":
        terminal.table(console, ("a",), [values])
    else:
        terminal.pairs(console, values[0], {"name": values[0]})
    return out.getvalue()


@pytest.mark.parametrize("act", ["table", "pairs"])
@pytest.mark.parametrize("text", ["[red]x[/red]", "[link=http://x]y[/link]", ":smile:", "\x1b]0;title\x07", "[/]"])
def test_markup_is_text(act: str, text: str) -> None:
    shown = printed(act, text)
    assert terminal.visible(text) in shown
    assert text.isprintable() or text not in shown


def test_what_is_absent_is_a_dash() -> None:
    assert terminal.line(["a", None, "", 0]) == "a\t-\t-\t0"


def test_what_is_missing_is_told_in_one_harmless_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    nasty = "a\nb\x1b[2J\u202e" + "x" * 512
    reconciliations._tell(Account(checked=2, missing=1, ids=[(nasty, nasty)]), fixed=False)
    told = capsys.readouterr().out
    assert len(told.splitlines()) == 5
    assert told.replace("\n", "").isprintable()
    assert "a\\nb\\x1b[2J\\u202exxx" in told
    assert "x" * 129 not in told
