"""The jars of the local Kafka: named and hashed in `kafka-jars.sha256`, fetched once, checked at each start.

Each line of the lock is `sha256  group/as/path/artifact/version/file.jar`, so that
`sha256sum -c` also checks a Maven repository folder with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from deploy.local import resolvers
from deploy.local.errors import ChecksumError, LocalStackError, MissingError
from deploy.local.steps import Watch

log = logging.getLogger("headrace.local")
LOCK = Path(__file__).with_name("kafka-jars.sha256")
FETCH_S = 900.0  # 44 MB over a slow line
REPOSITORY_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Jar:
    """One pinned jar: its place in a Maven repository and its SHA-256 in hex."""

    path: PurePosixPath
    sha256: str

    @property
    def coordinates(self) -> resolvers.Coordinates:
        """Group, artifact and version, read from the path."""
        *group, artifact, version, _ = self.path.parts
        return resolvers.Coordinates(".".join(group), artifact, version)


def parse_lock(text: str) -> tuple[Jar, ...]:
    """Read a lock file; raise ValueError with the line that is not one."""
    jars = []
    for line in filter(None, text.splitlines()):
        sha256, _, path = line.partition("  ")
        if len(sha256) != 64 or len(PurePosixPath(path).parts) < 4:
            raise ValueError(f"not a line of a lock file: {line!r}")
        jars.append(Jar(PurePosixPath(path), sha256))
    return tuple(jars)


def render_lock(jars: Iterable[Jar]) -> str:
    """Write a lock file, sorted by path."""
    return "".join(f"{jar.sha256}  {jar.path}\n" for jar in sorted(jars, key=lambda jar: jar.path))


def kafka_version(jars: Iterable[Jar]) -> str:
    """Return the version of the broker among the jars."""
    return next(jar.coordinates.version for jar in jars if jar.coordinates.artifact.startswith("kafka_2."))


def sha256_of(path: Path) -> str:
    """Hash a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def differences(folder: Path, jars: Iterable[Jar]) -> list[str]:
    """Say what makes the folder differ from the lock: jars that lack, differ, or do not belong there."""
    wanted = {jar.path.name: jar.sha256 for jar in jars}
    found = {path.name: sha256_of(path) for path in folder.glob("*.jar")}
    return (
        [f"{name} is missing" for name in sorted(wanted.keys() - found.keys())]
        + [f"{name} is not in the lock" for name in sorted(found.keys() - wanted.keys())]
        + [
            f"{name} has SHA-256 {found[name]}, not {wanted[name]}"
            for name in sorted(wanted.keys() & found.keys())
            if found[name] != wanted[name]
        ]
    )


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where downloads are kept: `HEADRACE_CACHE`, else `.headrace/cache` of the repository."""
    return Path(environ.get("HEADRACE_CACHE") or REPOSITORY_ROOT / ".headrace" / "cache").absolute()


def ensure(java: Path, watch: Watch, root: Path | None = None) -> Path:
    """Return the folder that holds exactly the pinned jars, fetching them when it does not yet.

    Raises UnreachableError when no registry answers, ChecksumError when it serves other files.
    """
    jars = parse_lock(LOCK.read_text())
    root = root or cache_root()
    folder = root / f"kafka-{kafka_version(jars)}"
    if not differences(folder, jars):
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with root.joinpath("kafka.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if differences(folder, jars):
            _replace(folder, jars, java, watch.renewed(FETCH_S))
    return folder


def _replace(folder: Path, jars: tuple[Jar, ...], java: Path, watch: Watch) -> None:
    log.info("Fetching Kafka %s (%d jars) into %s", kafka_version(jars), len(jars), folder)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        fresh = Path(scratch, "jars")
        fetch(jars, fresh, java, watch)
        wrong = differences(fresh, jars)
        if wrong:
            raise ChecksumError(
                f"The registry served other files than {LOCK} names ({len(wrong)}; first: {wrong[0]}); "
                "nothing was kept: remove these jars from your local Maven repository and fetch again."
            )
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


def fetch(jars: tuple[Jar, ...], target: Path, java: Path, watch: Watch) -> None:
    """Fetch the jars with Maven where it is present, else or when it fails with pyspark's Ivy."""
    coordinates = [jar.coordinates for jar in jars]
    failure: LocalStackError | None = None
    for resolver in resolvers.available(java):
        shutil.rmtree(target, ignore_errors=True)
        try:
            resolver.fetch(coordinates, target, watch)
        except LocalStackError as error:
            watch.check("Fetching the jars of Kafka", resolver.log)
            failure = error
        else:
            return
    raise failure or MissingError(
        "Neither Maven nor the Ivy inside pyspark is here to fetch Kafka with; "
        "install pyspark (`uv sync --extra spark`) or Maven."
    )
