"""Run a program that ends by itself, so that an interrupt ends it too."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local.errors import LocalStackError, StartError, StoppedError, UnreachableError, explain

POLL_S = 0.02
TAIL_BYTES = 65_536


@dataclass(frozen=True)
class Watch:
    """A deadline and a way to be interrupted, shared by everything that one start waits for."""

    seconds: float = 120.0
    interrupted: threading.Event = field(default_factory=threading.Event)
    began: float = field(default_factory=time.monotonic)

    def renewed(self, seconds: float) -> Watch:
        """Return a watch that begins now, with its own deadline and the same interrupt."""
        return Watch(seconds, self.interrupted)

    def check(self, what: str, log: Path) -> None:
        """Raise StoppedError after an interrupt, UnreachableError after the deadline."""
        if self.interrupted.is_set():
            raise StoppedError(f"{what} was interrupted.")
        if time.monotonic() - self.began > self.seconds:
            raise UnreachableError(
                f"{what} took longer than {self.seconds:.0f} s; read {log}, then start again "
                "(on a busy machine, with less beside it)."
            )


def run(command: Sequence[str | Path], what: str, log: Path, watch: Watch, **popen: Any) -> None:
    """Run `command` with its output in `log`; raise StartError when it fails.

    `popen` goes to `subprocess.Popen` as it is.
    """
    with log.open("ab") as output:
        process = _open(command, what, output, popen)
        try:
            while process.poll() is None:
                watch.check(what, log)
                time.sleep(POLL_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode:
        raise StartError(f"{what} failed: {explain(tail(log))} (log: {log}).")


def tail(log: Path) -> str:
    """Return the end of a log."""
    return log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")


def _open(command: Sequence[str | Path], what: str, output: Any, popen: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **popen,
        )
    except OSError as error:
        raise LocalStackError(f"{what} could not be run ({command[0]}): {error.strerror}.") from error
