"""What a hundred scrapers cost a worker: `python -m bench.scrapers [--rounds N] [--fresh]`.

One worker at work; stretches with nobody, and with 100 who ask for `/metrics` once a second each, in turn. They keep
their connections, as Prometheus does; then, or with `--fresh` only, they take a new one each time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.rig import PROMPT_CHARS, ROOT, Figure, cpu_seconds, median, rig
from tests.fleet import Fleet, Worker, prompts, wait_for

SECONDS, IN_FLIGHT = 10, 256
# More than one worker answers in all stretches together.
ROWS_A_STRETCH = 16_000
ALONE, KEPT, FRESH = "", " with kept connections", " with new connections"


def main() -> int:
    """Measure, print, and fail when those who keep their connections cost more than a twentieth."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--fresh", action="store_true", help="only scrapers that connect anew each time")
    chosen = arguments.parse_args()
    figures = list(measure(chosen.rounds, [FRESH] if chosen.fresh else [KEPT, FRESH]))
    print(*figures, sep="\n")
    return 0 if all(figure.met for figure in figures) else 1


def measure(rounds: int, kinds: Sequence[str]) -> Iterator[Figure]:
    """Rows a second and CPU a row, alone and asked in each of these ways."""
    found: dict[str, list[tuple[float, float]]] = {ALONE: [], **{kind: [] for kind in kinds}}
    with rig() as servers:
        fleet = servers.fleet()
        try:
            fleet.publish(prompts(4000, PROMPT_CHARS))
            (worker,) = fleet.start(1, MAX_IN_FLIGHT=str(IN_FLIGHT))
            wait_for(lambda: fleet.ended() > 2000, 120)
            for number in range(rounds):
                enough = len(found) * ROWS_A_STRETCH
                fleet.publish(prompts(enough, PROMPT_CHARS, start=(number + 1) * 100_000))
                # Each is first in its turn, since a stretch is also a place in time.
                for kind in (*found, *found)[number % len(found) :][: len(found)]:
                    with scrapers(kind, worker.metrics_port):
                        found[kind].append(stretch(fleet, worker))
        finally:
            fleet.close()
    sys.stderr.write(f"rows a second and CPU ms a row: {found}\n")
    rate_alone, cpu_alone = medians(found[ALONE])
    for kind in kinds:
        rate, cpu = medians(found[kind])
        # The scrapers themselves, and whatever else runs here, take from the rate too: the goal is the worker's time.
        yield Figure(f"100 scrapers{kind}: rows a second (this machine)", rate, "-", True, rate_alone, "/s")
        goal, met = ("ratio <= 1.05", cpu <= 1.05 * cpu_alone) if kind == KEPT else ("-", True)
        yield Figure(f"100 scrapers{kind}: CPU a row", cpu, goal, met, cpu_alone, "ms")


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
def scrapers(kind: str, port: int) -> Iterator[None]:
    """A process that asks until the block ends, if any is to."""
    if kind == ALONE:
        yield
        return
    words = [sys.executable, "-m", "bench.scraping", str(port), *(["--fresh"] if kind == FRESH else [])]
    process = subprocess.Popen(words, cwd=ROOT)
    try:
        time.sleep(2)
        yield
        assert process.poll() is None, "a scraper was turned away"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
