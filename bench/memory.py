"""One worker's memory over time: `python -m bench.memory [--minutes 30] [--backlog 100000]`.

256 calls in flight, 16 KB prompts and answers of 2 KB, a backlog that does not end. Goals: never 300 MB, and flat in
the second half of the time: the allocator takes its last step of about 10 MB some ten minutes after the start.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rig import Figure, Rig, rig

PROMPT_BYTES = 16_384
IN_FLIGHT = 256
LATENCY_MS = 4_000
ANSWER_CHARS = 2_000
MOST_MB = 300.0
# Of a slope that is nothing but noise; memory that leaks grows by more than that.
MOST_MB_AN_HOUR = 5.0
_SAMPLE_SECONDS = 10.0
_TEXT = "A line of sixteen kilobytes of text, as a long review would be. " * (PROMPT_BYTES // 64)


@dataclass(frozen=True)
class Sample:
    """The worker at one moment."""

    seconds: float
    resident_mb: float
    files: int
    threads: int

    @staticmethod
    def of(pid: int, seconds: float) -> Sample:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        resident = int(status["VmRSS"].split()[0]) / 1024
        return Sample(seconds, resident, len(list(Path(f"/proc/{pid}/fd").iterdir())), int(status["Threads"]))


def memory(rig: Rig, minutes: float, backlog: int) -> Iterator[Figure]:
    """Sample a worker that never runs out of work."""
    rig.endpoint.set_script([{"latency_ms": LATENCY_MS, "content_chars": ANSWER_CHARS}])
    made = rig.fleet()
    published = made.publish(_prompts(0, backlog))
    (worker,) = made.start(1, MAX_IN_FLIGHT=str(IN_FLIGHT))
    samples: list[Sample] = []
    began = time.monotonic()
    try:
        while (seconds := time.monotonic() - began) < minutes * 60:
            samples.append(Sample.of(worker.process.pid, seconds))
            published += made.publish(_prompts(published, max(0, backlog - published + made.ended())))
            print(f"{seconds:7.0f} s {samples[-1].resident_mb:8.1f} MB {made.ended():8} ended", file=sys.stderr)
            time.sleep(_SAMPLE_SECONDS)
        reached = rig.endpoint.stats()["max_in_flight"]
    finally:
        made.close()
    yield from _figures(samples, reached)


def _figures(samples: list[Sample], reached: int) -> Iterator[Figure]:
    warm = samples[len(samples) // 2 :]
    peak = max(sample.resident_mb for sample in samples)
    slope = 3600 * _slope([s.seconds for s in warm], [s.resident_mb for s in warm])
    yield Figure("resident memory, most", peak, f"< {MOST_MB:.0f} MB", peak < MOST_MB, unit="MB")
    flat = slope <= MOST_MB_AN_HOUR
    yield Figure("its growth an hour, second half", slope, f"<= {MOST_MB_AN_HOUR} MB", flat, unit="MB/h")
    files, threads = max(s.files for s in warm), max(s.threads for s in warm)
    yield Figure("open files, most", files, "<= 400", files <= 400)
    yield Figure("threads, most", threads, "<= 40", threads <= 40)
    yield Figure("in flight reached / asked", reached / IN_FLIGHT, ">= 0.99", reached >= 0.99 * IN_FLIGHT)


def _slope(xs: list[float], ys: list[float]) -> float:
    return statistics.linear_regression(xs, ys).slope


def _prompts(start: int, number: int) -> Iterator[dict[str, Any]]:
    return ({"id": f"r-{n}", "prompt": f"{n} {_TEXT}"} for n in range(start, start + number))


def main() -> int:
    """Measure, and end with 1 if a figure is short."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--backlog", type=int, default=100_000)
    asked = parser.parse_args()
    with rig() as running:
        figures = list(memory(running, asked.minutes, asked.backlog))
    for figure in figures:
        print(figure, flush=True)
    return int(not all(figure.met for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
