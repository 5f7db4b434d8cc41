"""The file of few-shot examples: each line a pair, and every wrong line told without a word of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.examples import Example, read

FILE = Path("few_shot.jsonl")


def test_each_line_is_a_pair_to_the_letter(tmp_path: Path) -> None:
    lines = '\ufeff{"user": "a {b}\\n", "assistant": "\u2028é"}\r\n\n{"assistant": "2", "user": "1"}\n'
    (tmp_path / FILE).write_bytes(lines.encode())

    assert read(tmp_path, FILE) == ((Example("a {b}\n", "\u2028é"), Example("1", "2")), [])
    assert read(tmp_path, None) == ((), [])


@pytest.mark.parametrize(
    "line",
    [
        "{secret",
        "[1]",
        '{"user": "secret"}',
        '{"user": "secret", "assistant": 1}',
        '{"user": "secret", "assistant": " "}',
        '{"user": "secret", "assistant": "b", "system": "c"}',
        "[" * 100_000,
    ],
)
def test_a_wrong_line_is_told_by_its_number_alone(tmp_path: Path, line: str) -> None:
    (tmp_path / FILE).write_text('{"user": "a", "assistant": "b"}\n' + line)
    shown, (problem,) = read(tmp_path, FILE)

    assert shown == (Example("a", "b"),)
    assert problem.startswith("prompt.examples: few_shot.jsonl, line 2: must be")
    assert "secret" not in problem


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "cannot be read"), (b"\xff", "is not UTF-8"), (b"\n", "holds no example")]
)
def test_an_unusable_file_is_told(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)

    assert read(tmp_path, FILE)[1][0].startswith(f"prompt.examples: few_shot.jsonl {problem}")
