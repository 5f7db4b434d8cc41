"""`python -m deploy.docker.fetch_jars LOCK FOLDER`: put exactly the locked jars into a folder, or leave it as it was.

Runs inside image builds, where pyspark and with it Ivy is installed. Exit codes: 0 done, 1 the registry served other
files than the lock names, 2 no Java or no pyspark, 4 the registry cannot be reached.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from deploy.local import java
from deploy.local.errors import ChecksumError, LocalStackError, MissingError
from deploy.local.jars import FETCH_S, differences, parse_lock
from deploy.local.resolvers import Ivy, Resolver, find_ivy
from deploy.local.steps import Watch


def resolver() -> Resolver:
    """The Ivy inside pyspark; raises `MissingError` when it or Java is not there."""
    ivy = find_ivy()
    if ivy is None:
        raise MissingError("Jars are fetched with the Ivy inside pyspark; install it (`uv sync --extra spark`).")
    return Ivy(ivy, java.find())


def fetch(lock: Path, folder: Path, source: Resolver) -> int:
    """Fetch the jars of `lock` into `folder`, beside what is there; return how many.

    Raises `UnreachableError` or `ChecksumError`, and puts nothing into `folder` then.
    """
    jars = parse_lock(lock.read_text(encoding="utf8"))
    with tempfile.TemporaryDirectory(prefix="headrace-jars-") as scratch:
        fresh = Path(scratch, "jars")
        source.fetch([jar.coordinates for jar in jars], fresh, Watch(FETCH_S))
        if wrong := differences(fresh, jars):
            raise ChecksumError(f"The registry served other files than {lock} names: {'; '.join(wrong)}")
        shutil.copytree(fresh, folder, dirs_exist_ok=True)
    return len(jars)


def main(arguments: list[str] | None = None) -> int:
    """Fetch what the command line names; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.docker.fetch_jars")
    parser.add_argument("lock", type=Path, help="lines of `sha256  group/artifact/version/file.jar`")
    parser.add_argument("folder", type=Path, help="where the jars go")
    chosen = parser.parse_args(arguments)
    try:
        count = fetch(chosen.lock, chosen.folder, resolver())
    except LocalStackError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{count} jars of {chosen.lock} are in {chosen.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
