"""The shipped compose file, brought up under a project name and ports of its own.

Images and bases are taken from the same variables as the file itself (`KAFKA_IMAGE`, `POSTGRES_IMAGE`, ...);
`HEADRACE_TEST_DOCKER_BUILD` holds further options of `docker build`.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local import ports

ROOT = Path(__file__).parents[2]
ENGINE_S = 20.0
BUILD_S = 1200.0
COMMAND_S = 300.0
BASES = {"worker": "PYTHON_IMAGE", "spark": "JAVA_IMAGE"}
SECRETS = ROOT / "deploy" / "docker" / "dev-secrets"


@functools.cache
def no_engine() -> str | None:
    """Why nothing can be run, or None; the client program alone does not count."""
    if not shutil.which("docker"):
        return "no docker on the path"
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False, timeout=ENGINE_S)
    except subprocess.TimeoutExpired:
        return f"docker info did not answer within {ENGINE_S:.0f} s"
    if asked.returncode:
        return f"docker info: {asked.stderr.strip().splitlines()[-1]}"
    return None if _compose_command() else "neither `docker compose` nor docker-compose is there"


@functools.cache
def _compose_command() -> tuple[str, ...] | None:
    for command in (("docker", "compose"), ("docker-compose",)):
        if not shutil.which(command[0]):
            continue
        if subprocess.run([*command, "version"], capture_output=True, check=False).returncode == 0:
            return command
    return None


@dataclass(frozen=True)
class Container:
    """What the engine says of one container."""

    id: str
    said: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """How it ended."""
        return int(self.said["State"]["ExitCode"])

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return bool(self.said["State"]["Running"])


@dataclass(frozen=True)
class Stack:
    """One project of the compose file."""

    project: str
    kafka_port: int
    postgres_port: int
    settings: Mapping[str, str]

    @property
    def kafka(self) -> str:
        """Bootstrap servers for this machine."""
        return f"127.0.0.1:{self.kafka_port}"

    @property
    def database(self) -> str:
        """The URL for this machine."""
        inside = SECRETS.joinpath("database-url").read_text().strip()
        return inside.replace("@postgres:5432", f"@127.0.0.1:{self.postgres_port}")

    def build(self, name: str, tag: str) -> None:
        """Build an image as the file would, from its Dockerfile and the base that the variables name."""
        base = BASES[name]
        chosen = [f"--build-arg={base}={os.environ[base]}"] if os.environ.get(base) else []
        more = shlex.split(os.environ.get("HEADRACE_TEST_DOCKER_BUILD", ""))
        dockerfile = f"deploy/docker/{name}.Dockerfile"
        _run(["docker", "build", *more, *chosen, "--file", dockerfile, "--tag", tag, "."], {}, BUILD_S)

    def compose(self, *words: str, seconds: float = COMMAND_S) -> str:
        """Run one command of compose on the project; fails with what it said."""
        command = _compose_command()
        assert command is not None
        own = {"KAFKA_PORT": str(self.kafka_port), "POSTGRES_PORT": str(self.postgres_port)}
        return _run([*command, "-p", self.project, *words], {**own, **self.settings}, seconds)

    def up(self, workers: int) -> None:
        """What the README says, in the background."""
        self.compose("up", "-d", "--scale", f"worker={workers}", "worker")

    def containers(self, service: str) -> list[Container]:
        """The containers of a service, those that ended too."""
        label = f"label=com.docker.compose.service={service}"
        project = f"label=com.docker.compose.project={self.project}"
        ids = _run(["docker", "ps", "-aq", "--filter", project, "--filter", label], {}, COMMAND_S).split()
        said = json.loads(_run(["docker", "inspect", *ids], {}, COMMAND_S)) if ids else []
        return [Container(each["Id"], each) for each in said]

    def python(self, service: str, program: str) -> str:
        """Run a piece of Python inside a running container of the project."""
        return self.compose("exec", "-T", service, "python", "-c", program)

    def stats(self) -> dict[str, Any]:
        """The counts of the simulated model."""
        url = "http://127.0.0.1:8090/_sim/stats"
        said = self.python("simulator", f"import urllib.request as u; print(u.urlopen({url!r}).read().decode())")
        found: dict[str, Any] = json.loads(said)
        return found


@contextmanager
def stack(**settings: str) -> Iterator[Stack]:
    """Yield a project that is not up yet; in the end nothing of it is left but its images."""
    chosen = ports.choose(("kafka", "postgres"), {})
    made = Stack(f"headrace-test-{uuid.uuid4().hex[:8]}", chosen["kafka"], chosen["postgres"], settings)
    try:
        yield made
    finally:
        made.compose("--profile", "spark", "down", "--volumes", "--timeout", "5")


def _run(command: list[str], settings: Mapping[str, str], seconds: float) -> str:
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    if ended.returncode:
        raise AssertionError(f"`{' '.join(command)}` ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.stdout
