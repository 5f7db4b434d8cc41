"""Processes known by pid *and* start time, so that a reused pid is never signalled by mistake."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

PROC = Path("/proc")
POLL_S = 0.02


@dataclass(frozen=True)
class Identity:
    """One process of one boot: its pid and an opaque text that says when it started."""

    pid: int
    started: str


def parse_stat(text: str) -> tuple[str, int, str]:
    """Read `/proc/<pid>/stat`: state letter, parent pid, start time in ticks since boot.

    The program's name stands in parentheses and may itself hold spaces and parentheses.
    """
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), fields[19]


def identify(pid: int) -> Identity | None:
    """Return who holds this pid now; None when nobody does or only a dead, unreaped process."""
    return _identify_by_proc(pid) if PROC.joinpath("self/stat").exists() else _identify_by_ps(pid)


def _identify_by_proc(pid: int) -> Identity | None:
    try:
        state, _, ticks = parse_stat(PROC.joinpath(str(pid), "stat").read_text())
        threads = len(os.listdir(PROC / str(pid) / "task"))
        boot = PROC.joinpath("sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError, IndexError):
        return None
    # A killed process shows as dead while its other threads still hold its ports and files.
    return None if state in "ZX" and threads <= 1 else Identity(pid, f"{boot}/{ticks}")


def _identify_by_ps(pid: int) -> Identity | None:
    ps = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = ps.stdout.strip().partition(" ")
    return Identity(pid, started.strip()) if started and not state.startswith("Z") else None


def is_alive(identity: Identity) -> bool:
    """Whether this very process still runs."""
    return identify(identity.pid) == identity


def children(pid: int) -> list[Identity]:
    """Return the direct children of a process that are alive now."""
    if PROC.joinpath("self/stat").exists():
        pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit() and _parent(entry) == pid]
    else:
        listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
        pids = [int(line) for line in listed.stdout.split()]
    return [child for child in map(identify, pids) if child]


def _parent(entry: Path) -> int | None:
    try:
        return parse_stat(entry.joinpath("stat").read_text())[1]
    except (OSError, ValueError, IndexError):
        return None


def send(identity: Identity, number: signal.Signals) -> None:
    """Signal this very process; do nothing when it has ended or its pid belongs to another."""
    if is_alive(identity):
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)


def wait_ended(identity: Identity, seconds: float) -> bool:
    """Wait until the process has ended, reaping it when it is ours; False when the time is over."""
    deadline = time.monotonic() + seconds
    while is_alive(identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    _reap(identity.pid)
    return True


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def end(identity: Identity, number: signal.Signals, grace_s: float) -> None:
    """Ask the process to end, and kill it when it has not done so after `grace_s` seconds."""
    send(identity, number)
    if not wait_ended(identity, grace_s):
        send(identity, signal.SIGKILL)
        wait_ended(identity, grace_s)


def write_pid_file(path: Path, identity: Identity) -> None:
    """Record a process as JSON."""
    path.write_text(json.dumps(asdict(identity)))


def recorded(path: Path) -> Identity | None:
    """Return the recorded process, running or not; None for no file or a broken one."""
    try:
        content = json.loads(path.read_text())
        return Identity(int(content["pid"]), str(content["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_pid_file(path: Path) -> Identity | None:
    """Return the recorded process if it still runs; None for no file, a broken, or a stale one."""
    identity = recorded(path)
    if identity is None or is_alive(identity):
        return identity
    _reap(identity.pid)
    return None
