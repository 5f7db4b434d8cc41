"""Rewrite `kafka-jars.sha256` after a change of the POM."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path, PurePosixPath

from deploy.local import jars
from deploy.local.errors import MissingError
from deploy.local.jars import Jar
from deploy.local.resolvers import Maven
from deploy.local.steps import Watch


def rewrite(java: Path, watch: Watch) -> None:
    """Resolve the POM with Maven and lock what it gives."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise MissingError("Rewriting the lock needs Maven, and PATH has no `mvn`; install it.")
    with tempfile.TemporaryDirectory(prefix="headrace-lock-") as scratch:
        repository = Path(scratch)
        Maven(Path(mvn), java).copy(repository, watch, flat=False)
        found = [_locked(repository, path) for path in repository.rglob("*.jar")]
    jars.LOCK.write_text(jars.render_lock(found))


def _locked(repository: Path, path: Path) -> Jar:
    return Jar(PurePosixPath(path.relative_to(repository)), jars.sha256_of(path))
