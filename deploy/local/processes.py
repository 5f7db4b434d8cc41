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


def parse_stat(text: str) -> tuple[str, str]:
    """Read `/proc/<pid>/stat`: state letter, start time in ticks since boot.

    The program's name stands in parentheses and may itself hold spaces and parentheses.
    """
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]


def identify(pid: int) -> Identity | None:
    """Return who holds this pid now; None when nobody does or only a dead, unreaped process."""
    return _identify_by_proc(pid) if PROC.joinpath("self/stat").exists() else _identify_by_ps(pid)


def _identify_by_proc(pid: int) -> Identity | None:
    try:
        state, ticks = parse_stat(PROC.joinpath(str(pid), "stat").read_text())
        threads = len(os.listdir(PROC / str(pid) / "task"))
        boot = PROC.joinpath("sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError, IndexError):
        return None
    return None if has_ended(state, threads) else Identity(pid, f"{boot}/{ticks}")


def has_ended(state: str, threads: int) -> bool:
    """Whether a process holds nothing any more.

    A killed one shows as dead (Z or X) at once, while its other threads still hold its ports and files.
    """
    return state in "ZX" and threads <= 1


def _identify_by_ps(pid: int) -> Identity | None:
    ps = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = ps.stdout.strip().partition(" ")
    return Identity(pid, started.strip()) if started and not state.startswith("Z") else None


def is_alive(identity: Identity) -> bool:
    """Whether this very process still runs."""
    return identify(identity.pid) == identity


def working_in(folder: Path, program: str) -> list[Identity]:
    """Return the processes of a program whose working folder is this one, such as a dead server's helpers."""
    folder = folder.resolve()
    if PROC.joinpath("self/stat").exists():
        pids = [int(each.name) for each in PROC.iterdir() if each.name.isdigit() and _works(each, folder, program)]
    else:
        command = ["lsof", "-a", "-d", "cwd", "-c", program, "-Fpn"]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        pids = parse_lsof(listed.stdout, str(folder))
    return [found for found in map(identify, pids) if found]


def _works(entry: Path, folder: Path, program: str) -> bool:
    try:
        return entry.joinpath("comm").read_text().strip() == program and entry.joinpath("cwd").readlink() == folder
    except OSError:
        return False


def parse_lsof(text: str, name: str) -> list[int]:
    """Read `lsof -Fpn`: return the pids, lines that begin with p, of files with this name, lines with n."""
    pids, pid = [], 0
    for line in text.splitlines():
        if line.startswith("p"):
            pid = int(line[1:])
        elif line == f"n{name}":
            pids.append(pid)
    return pids


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
    """Record a process as JSON; a reader sees the old record or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps(asdict(identity)))
    os.replace(fresh, path)


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
