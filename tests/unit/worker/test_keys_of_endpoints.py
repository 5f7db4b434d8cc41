"""Keys: stripped, never shown, read again when their file changes, and never anything but one line."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from worker.keys import Key

CANARY = "sk-canary-1"


def rewrite(path: Path, content: bytes) -> None:
    """Replace a file as a secret mount does: another file under the same name."""
    other = path.with_suffix(".new")
    other.write_bytes(content)
    os.replace(other, path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f" {CANARY}\n")
    return path


def test_a_value_is_stripped_and_not_shown() -> None:
    key = Key(f" \t{CANARY}\n", None)
    assert key() == CANARY
    assert CANARY not in repr(key) + str(key) + repr({"key": key})


def test_no_key_is_an_empty_one_and_no_problem() -> None:
    assert (Key("", None)(), Key("", None).problem) == ("", None)


def test_a_file_is_read_and_read_again_when_it_changes(path: Path) -> None:
    key = Key("", path)
    assert key() == CANARY
    rewrite(path, b"sk-next\n")
    assert key() == "sk-next"


@pytest.mark.parametrize("content", [b"sk-a\nsk-b\n", b"sk-a\rsk-b", b"\xff\xfe", b"", b" \n"])
def test_a_rotation_that_cannot_be_used_leaves_the_last_key_standing(path: Path, content: bytes) -> None:
    key = Key("", path)
    assert key() == CANARY
    rewrite(path, content)
    assert key() == CANARY
    rewrite(path, b"sk-next")
    assert key() == "sk-next"


def test_a_file_that_is_away_for_a_moment_leaves_the_last_key_standing(path: Path) -> None:
    key = Key("", path)
    assert key() == CANARY
    path.unlink()
    assert key() == CANARY


def test_a_key_that_cannot_be_read_is_told_once_and_not_at_every_call(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = Key("", path)
    key()
    rewrite(path, b"sk-a\nsk-b\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            key()
        path.unlink()
        for _ in range(1000):
            key()
    assert 1 <= len(caplog.records) <= 2
    assert "sk-a" not in caplog.text


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\r\nb"])
def test_a_line_break_inside_is_a_problem_that_does_not_show_the_key(value: str, tmp_path: Path) -> None:
    problem = Key(f"{CANARY}{value}", None).problem
    assert problem is not None
    assert "line break" in problem
    assert CANARY not in problem
    path = tmp_path / "key"
    path.write_text(f"{CANARY}{value}")
    assert "line break" in (Key("", path).problem or "")


def test_a_path_that_is_no_file_is_a_problem(tmp_path: Path) -> None:
    assert "is no file" in (Key("", tmp_path).problem or "")
    assert "is no file" in (Key("", tmp_path / "nowhere").problem or "")
