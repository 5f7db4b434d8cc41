"""The shipped compose file in a clean tree, brought up under a project name and ports of its own.

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
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local import ports

ROOT = Path(__file__).parents[2]
ENGINE_S = 20.0
BUILD_S = 1200.0
COMMAND_S = 300.0
JOB_S = 600.0
BASES = {"worker": "PYTHON_IMAGE", "spark": "JAVA_IMAGE", "kafka": "JAVA_IMAGE"}
PROFILES = ("spark", "schedule", "observability")
EVERYTHING = tuple(word for name in PROFILES for word in ("--profile", name))
SECRETS = ROOT / "deploy" / "docker" / "dev-secrets"


def engine_or_skip(*further: str | None) -> None:
    """Skip with the reason why no container can run here; with `HEADRACE_TEST_DOCKER=1` that is a failure."""
    reason = next((why for why in (no_engine(), *further) if why), None)
    if reason and os.environ.get("HEADRACE_TEST_DOCKER") == "1":
        pytest.fail(f"HEADRACE_TEST_DOCKER=1, but {reason}")
    if reason:
        pytest.skip(f"no containers here: {reason}")


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

    @property
    def one_shot(self) -> bool:
        """Whether `compose run` has made it."""
        return str(self.said["Config"]["Labels"].get("com.docker.compose.oneoff")).lower() == "true"

    def copy(self, path: str, to: Path) -> None:
        """Copy a folder out of it, from a volume too."""
        _run(["docker", "cp", f"{self.id}:{path}", str(to)], {}, COMMAND_S)


@dataclass(frozen=True)
class Stack:
    """One project of the compose file."""

    root: Path
    project: str
    ports: Mapping[str, int]
    settings: Mapping[str, str]

    @property
    def kafka(self) -> str:
        """Bootstrap servers for this machine."""
        return f"127.0.0.1:{self.ports['kafka']}"

    @property
    def database(self) -> str:
        """The URL for this machine."""
        named = self.settings.get("HEADRACE_DATABASE_URL_FILE", SECRETS / "database-url")
        inside = Path(named).read_text().strip()
        return inside.replace("@postgres:5432", f"@127.0.0.1:{self.ports['postgres']}")

    @property
    def prometheus(self) -> str:
        """Where Prometheus listens on this machine, with the profile `observability`."""
        return f"http://127.0.0.1:{self.ports['prometheus']}"

    def lacks(self, service: str) -> str | None:
        """Why the image of a service cannot be had, or None."""
        image = self.image(service)
        for command in (["docker", "image", "inspect", image], ["docker", "pull", "--quiet", image]):
            if not (ended := _ask(command)).returncode:
                return None
        return f"{image}: {ended.stderr.strip().splitlines()[-1]}"

    def image(self, service: str) -> str:
        """The image that the file names with these settings."""
        merged = yaml.safe_load(self.compose("--profile", "observability", "config"))
        return str(merged["services"][service]["image"])

    def build(self, name: str, tag: str) -> None:
        """Build an image as the file would, from its Dockerfile and the base that the variables name."""
        base = BASES[name]
        chosen = [f"--build-arg={base}={os.environ[base]}"] if os.environ.get(base) else []
        more = shlex.split(os.environ.get("HEADRACE_TEST_DOCKER_BUILD", ""))
        dockerfile = f"deploy/docker/{name}.Dockerfile"
        command = ["docker", "build", *more, *chosen, "--file", dockerfile, "--tag", tag, "."]
        _run(command, {}, BUILD_S, self.root)

    def compose(self, *words: str, seconds: float = COMMAND_S) -> str:
        """Run one command of compose on the project; fails with what it said."""
        command = _compose_command()
        assert command is not None
        own = {f"{name.upper()}_PORT": str(port) for name, port in self.ports.items()}
        return _run([*command, "-p", self.project, *words], {**own, **self.settings}, seconds, self.root)

    def job(self, service: str, *words: str) -> dict[str, Any]:
        """Run a one-shot service to its end; gives its last line. Its container stays, to be looked at."""
        said = self.compose("run", "-T", service, *words, seconds=JOB_S)
        found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        return found

    def up(self, workers: int) -> None:
        """What the README says, in the background."""
        self.compose("up", "-d", "--scale", f"worker={workers}", "worker")

    def observe(self) -> None:
        """Start Prometheus with its shipped configuration, and the exporter."""
        started = ("exporter", "prometheus")
        self.compose("--profile", "observability", "up", "-d", "--no-recreate", "--no-deps", *started)

    def containers(self, service: str) -> list[Container]:
        """The containers of a service, those that ended too."""
        label = f"label=com.docker.compose.service={service}"
        project = f"label=com.docker.compose.project={self.project}"
        ids = _run(["docker", "ps", "-aq", "--filter", project, "--filter", label], {}, COMMAND_S).split()
        return self._inspect(ids)

    def everything(self) -> list[Container]:
        """All containers of the project."""
        project = f"label=com.docker.compose.project={self.project}"
        return self._inspect(_run(["docker", "ps", "-aq", "--filter", project], {}, COMMAND_S).split())

    def _inspect(self, ids: list[str]) -> list[Container]:
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
    chosen = ports.choose(("kafka", "postgres", "prometheus"), {})
    with tempfile.TemporaryDirectory() as folder:
        root = clean_tree(Path(folder) / "headrace")
        made = Stack(root, f"headrace-test-{uuid.uuid4().hex[:8]}", chosen, settings)
        try:
            yield made
        finally:
            # `down` leaves a one-shot container that still runs, and with it the network.
            if one_shot := [each.id for each in made.everything() if each.one_shot]:
                _run(["docker", "rm", "--force", "--volumes", *one_shot], {}, COMMAND_S)
            made.compose(*EVERYTHING, "down", "--volumes", "--remove-orphans", "--timeout", "5")


def clean_tree(folder: Path) -> Path:
    """Copy what is, or would be, in the repository: nothing that was built, set up or kept in this working copy."""
    listed = _run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], {}, COMMAND_S)
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    # Containers read it as users of their own.
    folder.parent.chmod(0o755)
    return folder


def _ask(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_S)


def _run(command: list[str], settings: Mapping[str, str], seconds: float, folder: Path = ROOT) -> str:
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    if ended.returncode:
        raise AssertionError(f"`{' '.join(command)}` ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.stdout
