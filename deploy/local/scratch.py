"""A throw-away folder for servers, freed of processes and files even when its owner is killed."""

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
from deploy.local.errors import LocalStackError, StoppedError

GRACE_S = 30.0
DONE = b"done"
REPOSITORY_ROOT = Path(__file__).parents[2]


def clear(folder: Path, *, keep_logs: bool = False) -> None:
    """Kill the servers whose pid files lie below the folder, then remove it, or all but its logs."""
    for pid_file in (*folder.glob("*.pid"), *folder.glob("*/*.pid")):
        identity = processes.read_pid_file(pid_file)
        if identity:
            processes.end(identity, signal.SIGKILL, GRACE_S)
        for helper in processes.working_in(pid_file.parent / "data", "postgres"):
            processes.end(helper, signal.SIGKILL, GRACE_S)
    if not keep_logs:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.glob("*/*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix != ".log":
            path.unlink()


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a new folder in the system's temporary one that any server account can enter.

    A second process holds the other end of a pipe and clears the folder when this process is gone.
    After a failed start the logs stay, since the error names them.
    """
    account = accounts.other_account()
    root = next((root for root in accounts.temporary_roots() if accounts.can_reach(root, account)), None)
    path = Path(tempfile.mkdtemp(prefix="headrace-", dir=root))
    path.chmod(0o711)
    guard = _guard(path)
    failed = False
    try:
        yield path
    except LocalStackError as error:
        failed = not isinstance(error, StoppedError)
        raise
    finally:
        clear(path, keep_logs=failed)
        guard.communicate(DONE)


def _guard(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "deploy.local.scratch", str(path)],
        stdin=subprocess.PIPE,
        cwd=REPOSITORY_ROOT,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY_ROOT)},
        start_new_session=True,
    )


if __name__ == "__main__":
    if sys.stdin.buffer.read() != DONE:
        clear(Path(sys.argv[1]))
