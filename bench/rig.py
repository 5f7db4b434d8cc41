"""What every measurement of the worker stands on: servers, endpoint, topic, processes and their CPU."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.stack import LocalStack, throwaway
from tests.fleet import Fleet, Worker
from tests.simulated import Simulated, simulated

ROOT = Path(__file__).resolve().parents[1]
PROMPT_CHARS = 1000
LATENCY_MS = 100
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Rig:
    """Running servers and an endpoint that takes 100 ms."""

    stack: LocalStack
    endpoint: Simulated
    folder: Path

    def fleet(self, partitions: int = 12) -> Fleet:
        """A prepared world of its own, without workers."""
        made = Fleet(self.stack.kafka.bootstrap_servers, self.stack.postgres.url, self.folder, self.endpoint.base_url)
        made.prepare(partitions)
        return made


@dataclass(frozen=True)
class Figure:
    """One line of the result; `goal` holds for `ours` if there is no reference, else for the ratio."""

    name: str
    ours: float
    goal: str
    met: bool
    reference: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        ratio = f"{self.ours / self.reference:.2f}" if self.reference else "-"
        reference = f"{self.reference:.3f}" if self.reference else "-"
        verdict = "met" if self.met else "SHORT"
        return f"{self.name:58} {self.ours:10.3f} {reference:>10} {ratio:>6}  {self.goal:24} {verdict}  {self.unit}"


@contextmanager
def rig() -> Iterator[Rig]:
    """Servers, an endpoint on the first core, and a folder, all gone afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = stack.enter_context(throwaway())
        endpoint = stack.enter_context(simulated(latency_ms=LATENCY_MS))
        yield Rig(servers, endpoint, folder)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_megabytes(pid: int) -> float:
    """Most resident memory a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@dataclass(frozen=True)
class Stretch:
    """CPU and time between two states of a running worker."""

    cpu_ms_a_prompt: float
    prompts_a_second: float
    peak_mb: float


def measure_worker(fleet: Fleet, worker: Worker, rows: int) -> Stretch:
    """Measure from a fifth of the rows to the end, so that start-up and ramp are not in it."""
    pid = worker.process.pid
    first = _until(fleet.ended, rows // 5)
    began, cpu = time.monotonic(), cpu_seconds(pid)
    last = _until(fleet.ended, rows)
    seconds, used = time.monotonic() - began, cpu_seconds(pid) - cpu
    return Stretch(1000 * used / (last - first), (last - first) / seconds, peak_megabytes(pid))


def reference(base_url: str, in_flight: int, rows: int) -> float:
    """CPU milliseconds a request of the bare loop on the same transport, start-up left out."""
    words = [sys.executable, "-m", "bench.reference", base_url, str(in_flight), str(rows)]
    done = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return float(done.stdout)


def median(values: Sequence[float]) -> float:
    """The middle of several rounds."""
    return statistics.median(values)


def _until(count: Callable[[], int], rows: int, seconds: float = 300) -> int:
    deadline = time.monotonic() + seconds
    while (found := count()) < rows:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{found} of {rows} rows")
        time.sleep(0.05)
    return found
