"""A process is known by its pid and its start time, never by its pid alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local import processes
from deploy.local.processes import Identity

LSOF = "p100\nfcwd\nn/data/one\np200\nfcwd\nn/data/two\np300\nfcwd\nn/data/one\n"


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of our own that waits for its standard input to close."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        yield process
        process.kill()


def test_a_name_with_spaces_and_parentheses_does_not_shift_the_fields() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert processes.parse_stat(f"77 (a) b (c)) S {fields}") == ("S", "22")


@pytest.mark.parametrize(
    ("state", "threads", "ended"), [("S", 1, False), ("Z", 0, True), ("Z", 1, True), ("Z", 2, False), ("X", 1, True)]
)
def test_a_dead_process_has_ended_only_with_its_last_thread(state: str, threads: int, *, ended: bool) -> None:
    assert processes.has_ended(state, threads) is ended


def test_the_same_pid_with_another_start_time_is_another_process() -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    assert processes.is_alive(me)
    assert not processes.is_alive(Identity(me.pid, me.started + "0"))


def test_a_reused_pid_is_not_signalled(child: subprocess.Popen[str]) -> None:
    processes.send(Identity(child.pid, "another time"), signal.SIGKILL)
    assert child.poll() is None


def test_a_recorded_process_is_found_again_until_it_ends(child: subprocess.Popen[str], tmp_path: Path) -> None:
    identity = processes.identify(child.pid)
    assert identity is not None
    processes.write_pid_file(tmp_path / "x.pid", identity)
    assert processes.read_pid_file(tmp_path / "x.pid") == identity
    processes.end(identity, signal.SIGTERM, 10)
    assert processes.read_pid_file(tmp_path / "x.pid") is None
    assert processes.recorded(tmp_path / "x.pid") == identity


def test_a_process_that_ignores_the_signal_is_killed() -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        identity = processes.identify(process.pid)
        assert identity is not None
        processes.end(identity, signal.SIGTERM, 0.1)
        assert not processes.is_alive(identity)


@pytest.mark.parametrize("content", ["", "12", '{"pid": 1}', '{"pid": "x", "started": "y"}', "[]"])
def test_a_broken_pid_file_counts_as_none(tmp_path: Path, content: str) -> None:
    tmp_path.joinpath("x.pid").write_text(content)
    assert processes.read_pid_file(tmp_path / "x.pid") is None


def test_only_programs_of_that_name_in_that_very_folder_are_found(
    child: subprocess.Popen[str], tmp_path: Path
) -> None:
    if not processes.PROC.joinpath("self").exists():
        pytest.skip("reads /proc")
    name = processes.PROC.joinpath(str(child.pid), "comm").read_text().strip()
    assert [each.pid for each in processes.working_in(tmp_path, name)] == [child.pid]
    assert processes.working_in(tmp_path, "postgres") == []
    assert processes.working_in(tmp_path.parent, name) == []


def test_lsof_names_the_pids_of_one_folder() -> None:
    assert processes.parse_lsof(LSOF, "/data/one") == [100, 300]
