"""The whole pipeline by its own command: Spark, Kafka, two workers, Postgres, Spark; one worker killed on the way."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from deploy.demo.place import Place
from deploy.demo.run import Demo
from deploy.demo.voice import Voice

ROWS = 400
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_worker_killed_in_the_middle_costs_no_row_and_a_second_run_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATOR_LATENCY_MS", "2000")
    monkeypatch.setenv("MAX_IN_FLIGHT", "12")
    monkeypatch.setenv("SIMULATOR_LEDGER", str(tmp_path / "calls.jsonl"))
    place = Place(tmp_path)
    killed = threading.Event()
    threading.Thread(target=_kill_a_busy_worker, args=(place, killed), daemon=True).start()
    with Console(file=(tmp_path / "said").open("w"), width=120) as console:
        first = Demo("sim", ROWS, Voice(console), place).run()
    assert killed.is_set()
    assert first.produced["read"] == ROWS
    assert first.ended == first.produced["published"]
    assert first.checked == first.ended + first.produced["deduplicated"]
    assert first.checked + first.produced["rejected"] == ROWS
    assert "has died; started again" in (tmp_path / "said").read_text()
    # The calls in flight, the claims ahead of them, and the answers that were not durable yet.
    assert first.calls.maybe_billed <= 12 + 16 + 12

    monkeypatch.setenv("SIMULATOR_LATENCY_MS", "0")
    second = Demo("sim", ROWS, Voice(Console(quiet=True)), place).run()
    assert second.produced["published"] == 0
    assert second.calls.calls == 0
    assert second.backfilled["written"] == 0
    assert second.rows == first.rows


def _kill_a_busy_worker(place: Place, killed: threading.Event) -> None:
    """Kill -9 the first worker once a fifth of the calls have been answered."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        calls = place.folder.joinpath("calls.jsonl")
        if calls.exists() and calls.read_bytes().count(b"\n") > ROWS // 5:
            os.kill(_worker_pids()[0], signal.SIGKILL)
            killed.set()
            return
        time.sleep(0.2)


def _worker_pids() -> list[int]:
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [int(pid) for file in children for pid in file.read_text().split()]
    return [pid for pid in sorted(pids) if b"-m\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
