"""Measures how many answers a second the simulator gives on one core, so that it is never the limit.

`python -m bench.simulator` prints one JSON line: for each number of connections the median rate of the rounds and
the simulator's CPU per answer. Prompt and answer have 1 KB; connections are kept alive, each asks again as soon as
it is answered. Client and simulator are pinned to a core each. The figure to reach is answers per second of the
simulator's CPU, which holds on a shared machine too; the wall rate beside it is what this machine had left.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.simulated import Simulated, simulated

CONNECTIONS = (64, 256)
ROUNDS = 3
SECONDS = 4.0
REACH = 3000
PROMPT = "Which of the labels fits this review best, and why? " * 20


@dataclass
class Round:
    """One round's answers, seconds of wall time, and seconds of the simulator's CPU."""

    answers: int
    wall_s: float
    cpu_s: float


class Asker(asyncio.Protocol):
    """Asks again as soon as an answer is whole; knows just enough HTTP for this endpoint."""

    def __init__(self, number: int, deadline: float) -> None:
        self._number, self._asked, self._deadline = number, 0, deadline
        self._missing = 0
        self._buffer = b""
        self.answers = 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._missing:
            head, found, _ = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            assert head.startswith(b"HTTP/1.1 200 "), head
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self._missing = len(head) + 4 + int(length)
        if len(self._buffer) >= self._missing:
            self._answered()

    def _answered(self) -> None:
        self.answers += 1
        self._buffer, self._missing = b"", 0
        if time.monotonic() < self._deadline:
            self._ask()
        else:
            self._transport.close()
            self.done.set_result(None)

    def _ask(self) -> None:
        self._asked += 1
        self._transport.write(_request(f"r-{self._number}-{self._asked}"))


def _request(row: str) -> bytes:
    messages = [{"role": "user", "content": f"{row} {PROMPT}"}]
    body = json.dumps({"model": "small", "messages": messages, "max_tokens": 512}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer none\r\nX-Request-Id: {row}:1\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _round(base_url: str, connections: int, pid: int) -> Round:
    started, cpu = time.monotonic(), _cpu_seconds(pid)
    askers = [Asker(number, started + SECONDS) for number in range(connections)]
    await asyncio.gather(*(_connect(asker, base_url) for asker in askers))
    await asyncio.gather(*(asker.done for asker in askers))
    answers = sum(asker.answers for asker in askers)
    return Round(answers, time.monotonic() - started, _cpu_seconds(pid) - cpu)


async def _connect(asker: Asker, base_url: str) -> None:
    address = urlsplit(base_url)
    await asyncio.get_running_loop().create_connection(lambda: asker, address.hostname or "", address.port or 0)


def _cpu_seconds(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def _measure(running: Simulated, connections: int) -> dict[str, float]:
    assert running.process is not None
    pid = running.process.pid
    rounds = [asyncio.run(_round(running.base_url, connections, pid)) for _ in range(ROUNDS)]
    return {
        "connections": connections,
        "answers_per_s": round(statistics.median(one.answers / one.wall_s for one in rounds)),
        "answers_per_cpu_s": round(statistics.median(one.answers / one.cpu_s for one in rounds)),
        "cpu_us_per_answer": round(statistics.median(one.cpu_s / one.answers for one in rounds) * 1e6),
    }


def main() -> int:
    """Measures every number of connections; gives 1 if one core does not reach the figure."""
    cores = sorted(os.sched_getaffinity(0))
    with simulated() as running:
        assert running.process is not None
        os.sched_setaffinity(running.process.pid, {cores[0]})
        os.sched_setaffinity(0, {cores[-1]})
        figures = [_measure(running, connections) for connections in CONNECTIONS]
    reached = all(figure["answers_per_cpu_s"] >= REACH for figure in figures)
    report = {"bench": "simulator", "cores": len(cores), "load": os.getloadavg()[0], "reach": REACH}
    sys.stdout.write(json.dumps({**report, "reached": reached, "figures": figures}) + "\n")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
