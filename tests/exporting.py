"""The exporter as a process of its own, and what it shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.fleet import ROOT, wait_for

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
Sample = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Exporter:
    """A running `headrace exporter` with its log."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int

    def scrape(self) -> dict[Sample, float]:
        """Every sample by its name and the values of its labels."""
        return scrape(self.port)

    def end(self) -> int:
        """Tell it to stop; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)


def get(port: int, path: str) -> str:
    """One of its pages."""
    with _DIRECT.open(f"http://127.0.0.1:{port}{path}", timeout=20) as response:
        return str(response.read().decode())


def scrape(port: int) -> dict[Sample, float]:
    """Every sample at a port of loopback."""
    families = text_string_to_metric_families(get(port, "/metrics"))
    return {(s.name, tuple(s.labels.values())): s.value for family in families for s in family.samples}


@contextmanager
def exporter(folder: Path, database: str) -> Iterator[Exporter]:
    """An exporter at a free port; it ends with the block."""
    log = folder / "exporter.log"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_", "EXPORTER_"))}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "control", "exporter"],
            cwd=ROOT,
            env={**clean, "DATABASE_URL": database, "EXPORTER_PORT": "0"},
            stdout=out,
            stderr=out,
        )
    try:
        found = wait_for(lambda: re.search(r"exporter: http://[\d.]+:(\d+)", log.read_text()), 30, log.read_text)
        yield Exporter(process, log, int(found[1]))
    finally:
        process.kill()
        process.wait()
