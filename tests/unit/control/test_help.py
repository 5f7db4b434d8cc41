"""`--help` of every command and program, and what the README says of them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from control.cli import app
from schemas.programs import PROGRAMS
from schemas.settings import variables

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf8")
KNOWN = variables(*(group for groups in PROGRAMS.values() for group in groups))
# What is not of the environment, or of no program alone.
BESIDES = {"NO_COLOR", "NAME_FILE", "FILE"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Every command by its words, with its options."""
    if not hasattr(command, "commands"):
        yield path, {option for parameter in command.params for option in parameter.opts}
        return
    for name, below in command.commands.items():
        yield from commands(below, (*path, name))


COMMANDS = dict(commands(get_command(app)))
GROUPS = sorted({path[:1] for path in COMMANDS if len(path) > 1})


def help_of(words: tuple[str, ...]) -> str:
    asked = [*words, "--help"]
    ended = CliRunner().invoke(app, asked, env={"COLUMNS": "400"}, prog_name="headrace", catch_exceptions=False)
    assert ended.exit_code == 0
    return ended.stdout


@pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)
def test_every_command_says_what_it_does_with_an_example_and_its_settings(words: tuple[str, ...]) -> None:
    text = help_of(words)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[0].startswith(f"Usage: headrace {' '.join(words)}")
    assert re.match(r"[A-Z].*[.:]", lines[1])
    example = next(line for line in lines if line.startswith("Example: "))
    assert f"headrace {' '.join(words)}" in example
    options = set(re.findall(r" (--[a-z-]+)", example))
    assert options <= COMMANDS[words], "its own example"
    assert "Traceback" not in text
    assert re.search(r"Settings: ", text)


@pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)
def test_the_settings_that_help_names_exist_and_have_the_default_that_it_tells(words: tuple[str, ...]) -> None:
    text = help_of(words)
    named = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", text)) - BESIDES
    assert named <= set(KNOWN)
    for name, told in re.findall(r"\b([A-Z]+(?:_[A-Z]+)+) \((.*?)\)[,.;]", text.split("Settings: ")[1]):
        group, field = KNOWN[name]
        default = group.model_fields[field].default
        value = getattr(default, "get_secret_value", lambda default=default: default)()
        assert told in (str(value), "none" if value is None else ""), name


@pytest.mark.parametrize("words", [(), *GROUPS], ids=" ".join)
def test_what_has_commands_lists_them(words: tuple[str, ...]) -> None:
    text = help_of(words)
    below = {path[len(words)] for path in COMMANDS if path[: len(words)] == words}
    assert all(re.search(rf"\b{re.escape(name)}\b", text) for name in below)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["-m", "worker"], "Example: LLM_BASE_URL=http://vllm:8000/v1 python -m worker"),
        (["-m", "simulator"], "Example: SIMULATOR_PORT=8090 python -m simulator"),
        (["producer/job.py"], "Example: spark-submit producer/job.py --job reviews.yaml"),
        (["backfill/job.py"], "backfill/job.py --job reviews.yaml"),
    ],
)
def test_every_program_has_help_too(command: list[str], said: str) -> None:
    ended = subprocess.run(
        [sys.executable, *command, "--help"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert said in ended.stdout
    assert "Exit codes: 0" in ended.stdout or "exit" in ended.stdout.lower()


def told_by_the_readme() -> Iterator[tuple[str, str]]:
    """Every command that the README shows, in code: its words and what follows."""
    code = [*re.findall(r"`(headrace [^`]+)`", README), *re.findall(r"^ *(headrace [^\n]+)$", README, re.MULTILINE)]
    for line in code:
        for part in line.split("#")[0].split("&&"):
            yield part.strip(), line


def test_every_command_and_option_that_the_readme_shows_exists() -> None:
    shown = list(told_by_the_readme())
    assert len(shown) > 20
    for part, line in shown:
        words = part.split()[1:]
        names = [tuple(words[:length]) for length in (2, 1) if tuple(words[:length]) in COMMANDS]
        # `list|show|replay` names several at once.
        several = [
            (*words[:at], name) for at, word in enumerate(words[:2]) if "|" in word for name in word.split("|")
        ]
        found = names[:1] or several
        assert found, line
        assert all(path in COMMANDS for path in found), line
        options = set(re.findall(r"(--[a-z-]+)", part))
        assert options <= set().union(*(COMMANDS[path] for path in found)), line


def test_the_readme_lists_every_command_once() -> None:
    section = README.split("## Commands\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `headrace ([a-z -]+?)(?: [A-Z\[-][^`]*)?` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted(" ".join(path) for path in COMMANDS)
