"""One server process: launched into its own session, logged to a file, known by its pid file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local import processes
from deploy.local.errors import StartError, explain
from deploy.local.processes import Identity
from deploy.local.steps import Watch, tail

POLL_S = 0.05


@dataclass(frozen=True)
class Server:
    """A named server whose pid file and log lie in `folder`. Any process may hold one of these."""

    name: str
    folder: Path

    @property
    def log(self) -> Path:
        """Where its output goes; the previous run's is kept beside it with `.1`."""
        return self.folder / f"{self.name.lower()}.log"

    @property
    def pid_file(self) -> Path:
        """Where its identity is recorded."""
        return self.folder / f"{self.name.lower()}.pid"

    def running(self) -> Identity | None:
        """Return the process if it runs; a stale pid file or a reused pid counts as not running."""
        return processes.read_pid_file(self.pid_file)

    def launch(self, command: Sequence[str | Path], **popen: Any) -> Identity:
        """Start the process and record it; `popen` goes to `subprocess.Popen` as it is."""
        if self.log.exists():
            os.replace(self.log, f"{self.log}.1")
        with self.log.open("wb") as output:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **popen,
            )
        # The process ends on its own terms; nobody is to warn that its handle was dropped.
        process.returncode = 0
        identity = processes.identify(process.pid)
        if identity is None:
            raise self.ended()
        processes.write_pid_file(self.pid_file, identity)
        return identity

    def wait_until(self, answers: Callable[[], bool], identity: Identity, watch: Watch) -> None:
        """Wait until the server answers; raise StartError when it ends, UnreachableError at the deadline."""
        while not answers():
            if not processes.is_alive(identity):
                raise self.ended()
            watch.check(f"The start of {self.name}", self.log)
            time.sleep(POLL_S)

    def ended(self) -> StartError:
        """Return the error that says why the server ended, from its log."""
        return StartError(f"{self.name} ended while it was starting: {explain(tail(self.log))} (log: {self.log}).")

    def stop(self, number: signal.Signals, grace_s: float) -> None:
        """End the process with a signal, after `grace_s` seconds by force, and forget it."""
        identity = self.running()
        if identity:
            processes.end(identity, number, grace_s)
        self.pid_file.unlink(missing_ok=True)
