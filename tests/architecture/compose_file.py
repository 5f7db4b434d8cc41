"""Reads `docker-compose.yml` and the Dockerfiles as tests need them: merged, with defaults filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_DURATION = re.compile(r"(?:(\d+)m)?(?:(\d+)s)?")
_INSTRUCTION = re.compile(r"^([A-Z]+)\s+((?:.*\\\n)*.*)$", re.MULTILINE)

Service = dict[str, Any]


@cache
def compose_text() -> str:
    """The file as it stands."""
    return (ROOT / "docker-compose.yml").read_text(encoding="utf8")


@cache
def compose() -> dict[str, Any]:
    """The file, with no variable set."""
    found: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(lambda match: match[2] or "", compose_text()))
    return found


def services() -> dict[str, Service]:
    """All services."""
    found: dict[str, Service] = compose()["services"]
    return found


def environment(service: Service) -> dict[str, str]:
    """What a service is given when nothing is taken over from the shell."""
    return {name: value for name, value in service.get("environment", {}).items() if value is not None}


def seconds(duration: str) -> int:
    """Read `45s`, `1m` or `1m30s`."""
    found = _DURATION.fullmatch(duration)
    assert found, f"no duration: {duration}"
    return int(found[1] or 0) * 60 + int(found[2] or 0)


@dataclass(frozen=True)
class Stage:
    """One stage of a Dockerfile: its base and its instructions in order."""

    base: str
    name: str | None
    instructions: tuple[tuple[str, str], ...]

    def of(self, word: str) -> list[str]:
        """The arguments of all instructions of one kind."""
        return [arguments for name, arguments in self.instructions if name == word]


@dataclass(frozen=True)
class Dockerfile:
    """A Dockerfile: the defaults of its global arguments and its stages."""

    arguments: dict[str, str]
    stages: tuple[Stage, ...]

    @property
    def final(self) -> Stage:
        """The stage that becomes the image."""
        return self.stages[-1]


def dockerfile(name: str) -> Dockerfile:
    """Parse `deploy/docker/<name>.Dockerfile`."""
    return parse_dockerfile((ROOT / "deploy" / "docker" / f"{name}.Dockerfile").read_text(encoding="utf8"))


def parse_dockerfile(text: str) -> Dockerfile:
    """Split a Dockerfile into stages; lines that continue belong together."""
    uncommented = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str | None, list[tuple[str, str]]]] = []
    for word, rest in _INSTRUCTION.findall(uncommented):
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append((base, name or None, []))
        elif stages:
            stages[-1][2].append((word, rest))
        else:
            name, _, default = rest.partition("=")
            arguments[name] = default
    return Dockerfile(arguments, tuple(Stage(base, name, tuple(found)) for base, name, found in stages))
