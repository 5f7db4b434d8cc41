"""Every `docker compose` command of the docs names files, profiles, services and variables that there are."""

from __future__ import annotations

import argparse
import itertools
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.architecture.compose_file import ROOT, compose, compose_text, services
from tests.composed import BASE, PRODUCTION, REQUIRED, config, no_compose

PROFILES = sorted({profile for service in services().values() for profile in service.get("profiles", [])})
PLACES = (
    "*.md",
    "docs/*.md",
    "deploy/**/*.md",
    "*.yml",
    "deploy/**/*.yml",
    "deploy/**/*.yaml",
    "deploy/**/*Dockerfile",
)
# A shell's assignments, the words of the command up to a comment, a quotation's end or what follows.
_COMMAND = re.compile(r"((?:[A-Z_]+=\S+ )*)docker compose ([^`\n#&)]*)")
needs_compose = pytest.mark.skipif(no_compose() is not None, reason=f"not merged here: {no_compose()}")


@dataclass(frozen=True)
class Command:
    """One command of a text: the variables before it, its files and profiles, what it does and to which services."""

    place: str
    variables: tuple[str, ...]
    files: tuple[Path, ...]
    profiles: tuple[str, ...]
    verb: str
    services: tuple[str, ...]


def read(place: str, assigned: str, words: str) -> Command:
    """Take a command apart; `…` stands for the files of production."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("-f", action="append", default=[], dest="files")
    parser.add_argument("--profile", action="append", default=[])
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    short = f"-f {BASE.relative_to(ROOT)} -f {PRODUCTION.relative_to(ROOT)}"
    said = parser.parse_args(shlex.split(words.replace("…", short)))
    verb, *rest = said.rest
    named = [word for word in _without_options(rest) if re.fullmatch(r"[a-z-]+", word)]
    scaled = re.findall(r"--scale (\w+)=\d+", words)
    found = (named[:1] if verb in {"run", "exec"} else named) + scaled
    files = tuple(ROOT / name for name in said.files) or (BASE,)
    variables = tuple(re.findall(r"([A-Z_]+)=", assigned))
    return Command(place, variables, files, tuple(said.profile), verb, tuple(found))


def _without_options(words: list[str]) -> list[str]:
    valued = {"--scale", "--timeout"}
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before not in valued and not word.startswith("-")
    ]


@cache
def commands() -> tuple[Command, ...]:
    """All that the texts name."""
    paths = sorted({path for pattern in PLACES for path in ROOT.glob(pattern)})
    found = []
    for path in paths:
        for assigned, words in _COMMAND.findall(path.read_text(encoding="utf8")):
            if words.strip():
                found.append(read(f"{path.relative_to(ROOT)}: {words.strip()}", assigned, words))
    return tuple(found)


def named(command: object) -> str:
    """How a test of it is called."""
    return command.place if isinstance(command, Command) else str(command)


def test_the_commands_are_found() -> None:
    """Those that a reader meets first, and one of each kind."""
    assert {command.verb for command in commands()} >= {"up", "run", "stop", "down", "exec", "logs"}
    assert {file for command in commands() for file in command.files} == {BASE, PRODUCTION}
    assert {profile for command in commands() for profile in command.profiles} == set(PROFILES)


@pytest.mark.parametrize("command", commands(), ids=named)
def test_a_command_names_what_there_is(command: Command) -> None:
    """A file, a profile, a service; a variable before it is one that the file asks for."""
    assert all(file.is_file() for file in command.files)
    assert set(command.profiles) <= set(PROFILES)
    assert set(command.services) <= services().keys()
    text = compose_text() + PRODUCTION.read_text(encoding="utf8")
    for variable in command.variables:
        assert re.search(rf"\${{{variable}\b|^ +{variable}:", text, re.MULTILINE), variable


@needs_compose
@pytest.mark.parametrize("command", commands(), ids=named)
def test_compose_reads_what_a_command_names(command: Command) -> None:
    """Without a warning, and its services are among those that it would start."""
    settings = REQUIRED if PRODUCTION in command.files else {}
    found, said = config(*command.files, profiles=command.profiles or ("*",), **settings)
    assert found is not None, said
    assert said == ""
    assert set(command.services) <= found["services"].keys()


COMBINATIONS = [
    (files, chosen)
    for files in ((BASE,), (BASE, PRODUCTION))
    for number in range(len(PROFILES) + 1)
    for chosen in itertools.combinations(PROFILES, number)
]


@needs_compose
@pytest.mark.parametrize(("files", "profiles"), COMBINATIONS, ids=lambda each: "+".join(map(named, map(Path, each))))
def test_every_combination_of_profiles_merges_and_shows_no_secret(
    files: tuple[Path, ...], profiles: tuple[str, ...]
) -> None:
    """With and without the overlay: the services of the profiles chosen, and no content of a secret file."""
    found, said = config(*files, profiles=profiles, **(REQUIRED if PRODUCTION in files else {}))
    assert found is not None, said
    assert said == ""
    left_out = {"kafka", "postgres", "simulator"} if PRODUCTION in files else set()
    asked = {name for name, said in services().items() if set(said.get("profiles", profiles)) & {*profiles}}
    plain = {name for name, said in services().items() if "profiles" not in said}
    assert found["services"].keys() == (asked | plain) - left_out
    secrets = [ROOT / str(secret["file"]) for secret in compose()["secrets"].values()]
    contents = [path.read_text(encoding="utf8").strip() for path in secrets if path.is_file()]
    text = yaml.safe_dump(found)
    assert len([content for content in contents if content]) >= 2
    assert not [content for content in contents if content and content in text]
