"""What a hundred scrapers cost a worker: `python -m bench.scrapers [--rounds N]`.

One worker at work; stretches with nobody and with 100 who ask for `/metrics` once a second each, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

from bench.rig import PROMPT_CHARS, ROOT, Figure, cpu_seconds, median, rig
from tests.fleet import Fleet, Worker, prompts, wait_for

SCRAPERS, SECONDS, IN_FLIGHT = 100, 10, 256
# More than one worker answers in all stretches together.
ROWS_A_STRETCH = 16_000


def main() -> int:
    """Measure, print, and fail when it costs more than a twentieth."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--ask", metavar="PORT", type=int, help="be the scrapers of this port")
    chosen = arguments.parse_args()
    if chosen.ask:
        # The cheapest loop: what the scrapers themselves use of this machine is not the worker's cost.
        uvloop.run(ask(chosen.ask))
        return 0
    figures = list(measure(chosen.rounds))
    print(*figures, sep="\n")
    return 0 if all(figure.met for figure in figures) else 1


def measure(rounds: int) -> Iterator[Figure]:
    """Rows a second and CPU a row, alone and asked."""
    alone: list[tuple[float, float]] = []
    asked: list[tuple[float, float]] = []
    with rig() as servers:
        fleet = servers.fleet()
        try:
            fleet.publish(prompts(4000, PROMPT_CHARS))
            (worker,) = fleet.start(1, MAX_IN_FLIGHT=str(IN_FLIGHT))
            wait_for(lambda: fleet.ended() > 2000, 120)
            for number in range(rounds):
                fleet.publish(prompts(2 * ROWS_A_STRETCH, PROMPT_CHARS, start=(number + 1) * 100_000))
                # Alternately first, since a stretch is also a place in time.
                if number % 2:
                    alone.append(stretch(fleet, worker))
                with scrapers(worker.metrics_port):
                    asked.append(stretch(fleet, worker))
                if number % 2 == 0:
                    alone.append(stretch(fleet, worker))
        finally:
            fleet.close()
    sys.stderr.write(f"rows a second and CPU ms a row, alone {alone}, asked {asked}\n")
    (rate, cpu), (rate_alone, cpu_alone) = map(medians, (asked, alone))
    # The scrapers themselves, and whatever else runs here, take from the rate too: the goal is the worker's own time.
    yield Figure("100 scrapers: rows a second (this machine)", rate, "-", True, rate_alone, "/s")
    yield Figure("100 scrapers: CPU a row", cpu, "ratio <= 1.05", cpu <= 1.05 * cpu_alone, cpu_alone, "ms")


def medians(found: list[tuple[float, float]]) -> tuple[float, ...]:
    """The middle of each column."""
    return tuple(median(column) for column in zip(*found, strict=True))


def stretch(fleet: Fleet, worker: Worker) -> tuple[float, float]:
    """Rows a second and CPU milliseconds a row, for some seconds."""
    pid = worker.process.pid
    rows, cpu, began = fleet.ended(), cpu_seconds(pid), time.monotonic()
    time.sleep(SECONDS)
    rows, cpu, seconds = fleet.ended() - rows, cpu_seconds(pid) - cpu, time.monotonic() - began
    return rows / seconds, 1000 * cpu / rows


@contextmanager
def scrapers(port: int) -> Iterator[None]:
    """A process that asks until the block ends."""
    words = [sys.executable, "-m", "bench.scrapers", "--ask", str(port)]
    process = subprocess.Popen(words, cwd=ROOT)
    try:
        time.sleep(2)
        yield
        assert process.poll() is None, "a scraper was turned away"
    finally:
        process.kill()
        process.wait()


async def ask(port: int) -> None:
    """Ask as a hundred, evenly spread over each second; ends with an error when one is turned away."""
    await asyncio.gather(*(_ask_each_second(port, n / SCRAPERS) for n in range(SCRAPERS)))


async def _ask_each_second(port: int, begin: float) -> None:
    await asyncio.sleep(begin)
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: worker\r\n\r\n")
        said = await reader.read(-1)
        assert said.startswith(b"HTTP/1.1 200 ")
        writer.close()
        await asyncio.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
