"""The programs of a demo: started, watched, started again when they die, stopped by their own pid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.demo.errors import DemoError
from deploy.demo.place import ROOT, Place

_STOP_SECONDS = 40
_TAIL_LINES = 8


class Program:
    """One long-running program with a log of its own."""

    def __init__(self, name: str, words: Sequence[str], env: Mapping[str, str], place: Place) -> None:
        self.name = name
        self.log = place.log(name)
        self._words = words
        self._env = {**os.environ, **env}
        self.deaths = 0
        self.process = self._start()

    def revive(self) -> bool:
        """Start it again if it has died; says whether it had."""
        if self.process.poll() is None:
            return False
        self.deaths += 1
        self.process = self._start()
        return True

    def stop(self) -> int:
        """Let it end, or end it."""
        self.process.terminate()
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def first_line(self, seconds: float) -> dict[str, Any]:
        """Wait for the JSON line that the program prints when it listens."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in self.log.read_text(errors="replace").splitlines():
                if line.startswith("{") and '"base_url"' in line:
                    return dict(json.loads(line))
            time.sleep(0.05)
        raise DemoError(f"{self.name} did not start within {seconds:.0f} s: {tail(self.log)}")

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen([sys.executable, *self._words], cwd=ROOT, env=self._env, stdout=log, stderr=log)


def spark_submit(name: str, words: Sequence[str], env: Mapping[str, str], place: Place) -> dict[str, Any]:
    """Run a Spark job and return the JSON object on its last line; raises `DemoError` unless it exits 0."""
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", *words]
    settings = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with place.log(name).open("wb") as log:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **env, **settings}, stdout=subprocess.PIPE, stderr=log, check=False
        )
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    if done.returncode or not lines:
        raise DemoError(f"{name} ended with {done.returncode}: {tail(place.log(name))}", done.returncode or 1)
    return dict(json.loads(lines[-1]))


def tail(log: Path) -> str:
    """The end of a log, for an error."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return "\n  ".join([f"the end of {log}:", *lines[-_TAIL_LINES:]]) if lines else f"{log} is empty"
