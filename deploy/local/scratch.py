"""A throw-away folder for servers, emptied of processes and files even when its owner is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local import accounts, processes

GRACE_S = 30.0
REPOSITORY_ROOT = Path(__file__).parents[2]


def clear(folder: Path) -> None:
    """Kill the servers whose pid files lie below the folder, then remove it."""
    for pid_file in folder.rglob("*.pid"):
        identity = processes.read_pid_file(pid_file) if pid_file.parent.name != "data" else None
        family = [identity, *processes.children(identity.pid)] if identity else []
        for each in family:
            processes.end(each, signal.SIGKILL, GRACE_S)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a new folder in the system's temporary one that any server account can enter.

    A second process holds the other end of a pipe and clears the folder when this process is gone.
    """
    account = accounts.other_account()
    root = next((root for root in accounts.temporary_roots() if accounts.can_reach(root, account)), None)
    path = Path(tempfile.mkdtemp(prefix="headrace-", dir=root))
    path.chmod(0o711)
    guard = _guard(path)
    try:
        yield path
    finally:
        clear(path)
        guard.communicate()


def _guard(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "deploy.local.scratch", str(path)],
        stdin=subprocess.PIPE,
        cwd=REPOSITORY_ROOT,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY_ROOT)},
        start_new_session=True,
    )


if __name__ == "__main__":
    sys.stdin.read()
    clear(Path(sys.argv[1]))
