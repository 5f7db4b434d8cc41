"""Few-shot examples: a file of JSON lines, each a question and the answer it should get."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_NAMES = {"user", "assistant"}


@dataclass(frozen=True, slots=True)
class Example:
    """One pair, as it is sent: no template, and the same for every row."""

    user: str
    assistant: str


def read(folder: Path, file: Path | None) -> tuple[tuple[Example, ...], list[str]]:
    """Read the examples that a job file in `folder` names, and what is wrong with them; no example is ever quoted."""
    if file is None:
        return (), []
    try:
        lines = (folder / file).read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        return (), [f"prompt.examples: {file} cannot be read: {error.strerror}"]
    except UnicodeDecodeError:
        return (), [f"prompt.examples: {file} is not UTF-8"]
    found = [(number, _example(line)) for number, line in enumerate(lines, start=1) if line.strip()]
    problems = [
        f'prompt.examples: {file}, line {number}: must be {{"user": ..., "assistant": ...}}, both text'
        for number, example in found
        if example is None
    ]
    if not found:
        problems = [f"prompt.examples: {file} holds no example"]
    return tuple(example for _, example in found if example), problems


def _example(line: str) -> Example | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or set(content) != _NAMES:
        return None
    if not all(isinstance(text, str) and text.strip() for text in content.values()):
        return None
    return Example(**content)
