"""Find a Java runtime that is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from deploy.local.errors import MissingError

OLDEST = 17
_COMMON = (
    ("/usr/lib/jvm", "*/bin/java"),
    ("/opt/java", "*/bin/java"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home/bin/java"),
    ("/opt/homebrew/opt", "openjdk*/bin/java"),
    ("/usr/local/opt", "openjdk*/bin/java"),
)


def parse_version(text: str) -> int | None:
    """Return the feature release in what `java -version` printed: 8 for 1.8.0_392, 17 for 17.0.15."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not match:
        return None
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first


def candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the places to look at, best first: JAVA_HOME, PATH, then where systems put Java."""
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"], "bin", "java")
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path)
    for folder, pattern in _COMMON:
        yield from sorted(Path(folder).glob(pattern), reverse=True)


def version_of(java: Path) -> int | None:
    """Ask a java program for its version; None when it does not run."""
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(answer.stderr + answer.stdout)


def pick(found: Iterable[tuple[Path, int | None]]) -> Path:
    """Return the first Java that is new enough; raise MissingError, naming what was seen, otherwise."""
    seen = []
    for java, version in found:
        if version is not None and version >= OLDEST:
            return java.resolve()
        if version is not None:
            seen.append(f"{java} is Java {version}")
    raise MissingError(
        f"Kafka needs Java {OLDEST} or newer, and JAVA_HOME, PATH and the usual folders have none"
        f"{' (' + ', '.join(seen) + ')' if seen else ''}; "
        f"install one (Debian: openjdk-{OLDEST}-jre-headless) or set JAVA_HOME."
    )


@cache
def find() -> Path:
    """Return the path of a `java` that can run Kafka."""
    return pick((java, version_of(java)) for java in candidates(os.environ))
