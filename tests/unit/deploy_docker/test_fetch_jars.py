"""Jars of an image: exactly the locked ones arrive, or none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.docker.fetch_jars import fetch
from deploy.local.errors import ChecksumError
from deploy.local.resolvers import Coordinates
from deploy.local.steps import Watch

CONTENT = b"a jar"
LOCK = f"{hashlib.sha256(CONTENT).hexdigest()}  org/example/thing/1.0/thing-1.0.jar\n"


@dataclass(frozen=True)
class Registry:
    """Serves one content for every jar, and what else it likes to."""

    content: bytes = CONTENT
    beside: tuple[str, ...] = ()
    log: Path = Path("unused")

    def fetch(self, wanted: Sequence[Coordinates], target: Path, watch: Watch) -> None:
        """Write every wanted jar."""
        target.mkdir(parents=True)
        for name in [*(f"{each.artifact}-{each.version}.jar" for each in wanted), *self.beside]:
            target.joinpath(name).write_bytes(self.content)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock of one jar."""
    path = tmp_path / "jars.sha256"
    path.write_text(LOCK)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds a jar of another lock."""
    path = tmp_path / "jars"
    path.mkdir()
    path.joinpath("other.jar").touch()
    return path


def test_locked_jars_join_those_that_are_there(lock: Path, folder: Path) -> None:
    """Spark's own jars stay where they are."""
    assert fetch(lock, folder, Registry()) == 1
    assert {path.name for path in folder.iterdir()} == {"other.jar", "thing-1.0.jar"}


@pytest.mark.parametrize("registry", [Registry(b"another jar"), Registry(beside=("more-2.0.jar",))])
def test_nothing_is_kept_when_the_registry_serves_something_else(
    lock: Path, folder: Path, registry: Registry
) -> None:
    """Neither another content nor an uninvited jar gets into an image."""
    with pytest.raises(ChecksumError, match=r"thing-1\.0\.jar has SHA-256|more-2\.0\.jar is not in the lock"):
        fetch(lock, folder, registry)
    assert [path.name for path in folder.iterdir()] == ["other.jar"]
