"""Steering, counts, ledger, start and stop of the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.simulator.client import (
    ask,
    connect,
    exchange,
    raw,
    receive,
    request_bytes,
    timed,
    until,
)
from tests.simulated import ROOT, ScriptRefusedError, Simulated, read_ledger, simulated


def test_a_wrong_script_is_refused_whole_and_the_old_one_stays(sim: Simulated) -> None:
    sim.set_script([{"status": 503}])
    with pytest.raises(ScriptRefusedError) as caught:
        sim.set_script([{"statuss": 1}, {"hang": 1}])
    assert "rules[0].statuss: unknown field, did you mean status?" in str(caught.value)
    assert "rules[1].hang: must be true or false, got 1" in str(caught.value)
    assert ask(sim).status == 503


def test_a_reset_forgets_counts_and_calls_that_are_open(sim: Simulated) -> None:
    sim.set_script([{"latency_ms": 300}])
    with connect(sim) as sock:
        sock.sendall(request_bytes())
        until(lambda: sim.stats()["in_flight"] == 1)
        sim.reset()
        assert receive(sock).status == 200
    stats = sim.stats(ids=True)
    assert (stats["calls"], stats["answers"], stats["in_flight"], stats["ids"]) == (0, 0, 0, {})


def test_the_most_calls_in_flight_are_known(sim: Simulated) -> None:
    sim.set_script([{"latency_ms": 400}])
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda at: ask(sim, row=f"r-{at}"), range(20)))
    assert sim.stats()["max_in_flight"] == 20


def test_the_ledger_has_one_line_for_each_call(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    script: list[dict[str, Any]] = [
        {"match": {"ids": ["cut"]}, "close": "mid_body"},
        {"match": {"ids": ["err"]}, "status": 500},
        {"match": {"ids": ["open"]}, "hang": True},
    ]
    before = time.time()
    with simulated(script, ledger=path, latency_ms=20) as sim:
        assert ask(sim, row="ok:1", attempt=3).status == 200
        assert ask(sim, row="err").status == 500
        assert len(raw(sim, request_bytes(row="cut"))) > 100
        with connect(sim) as sock:
            sock.sendall(request_bytes(row="open"))
            until(lambda: sim.stats()["in_flight"] == 1)
            sim.stop()
    lines = read_ledger(path)
    told = [(line["id"], line["outcome"], line["status"], line["billed"]) for line in lines]
    assert told == [
        ("ok:1", "answered", 200, True),
        ("err", "error", 500, False),
        ("cut", "cut", 200, True),
        ("open", "stopped", None, False),
    ]
    assert (lines[0]["attempt"], lines[0]["number"]) == (3, 1)
    assert all(before < line["t_start"] <= line["t_end"] for line in lines)
    assert lines[0]["t_end"] - lines[0]["t_start"] >= 0.02
    assert lines[0]["bytes_sent"] > 300
    assert lines[3]["bytes_sent"] == 0
    assert len({line["body_sha256"] for line in lines}) == 1


def test_it_stops_cleanly_and_starts_again_on_its_port(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"latency_ms": 60000}]')
    one = Simulated({"SIMULATOR_SCRIPT": str(script)})
    one.start()
    port = one.port
    with connect(one) as sock:
        sock.sendall(request_bytes())
        until(lambda: one.stats()["in_flight"] == 1)
        assert timed(lambda: _assert_equal(one.stop(), 0)) < 3
        with pytest.raises(ConnectionRefusedError):
            connect(one)
    one.start()
    assert one.port == port
    assert one.kill() == -9


def _assert_equal(left: object, right: object) -> None:
    assert left == right


@pytest.mark.parametrize(
    ("environ", "code", "words"),
    [
        ({"SIMULATOR_PORT": "x", "SIMULATOR_SCRIPT": "/nowhere"}, 2, "SIMULATOR_PORT: must be a number"),
        ({"SIMULATOR_HOST": "192.0.2.1", "SIMULATOR_PORT": "0"}, 1, "cannot listen on 192.0.2.1:0"),
    ],
)
def test_a_start_that_cannot_be_says_why(environ: dict[str, str], code: int, words: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "simulator"],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_thousand_connections_at_once_are_served(sim: Simulated) -> None:
    sockets = [connect(sim) for _ in range(1000)]
    try:
        for at, sock in enumerate(sockets):
            sock.sendall(request_bytes(row=f"r-{at}"))
        assert {receive(sock).status for sock in sockets} == {200}
    finally:
        for sock in sockets:
            sock.close()
    assert sim.stats()["answers"] == 1000


def test_many_clients_at_once_are_all_counted(sim: Simulated) -> None:
    def ask_50(client: int) -> None:
        with connect(sim) as sock:
            for at in range(50):
                assert exchange(sock, request_bytes(row=f"{client}-{at}")).status == 200

    threads = [threading.Thread(target=ask_50, args=(client,)) for client in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = sim.stats(ids=True)
    assert stats["calls"] == stats["answers"] == stats["billed"] == len(stats["ids"]) == 400
