"""Starts the simulator as a process of its own and steers it: for tests, the demo and measurements."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Script = dict[str, Any] | list[dict[str, Any]]


class ScriptRefusedError(ValueError):
    """The simulator refused a script; the text names every problem."""


@dataclass
class Simulated:
    """One running simulator. `base_url` ends in /v1; `start` after `stop` or `kill` takes the same port."""

    environ: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    base_url: str = ""
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts the process and waits until it listens; raises `RuntimeError` with what it said."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SIMULATOR_")}
        environ |= {"SIMULATOR_PORT": str(self.port), **self.environ}
        with tempfile.TemporaryFile("w+") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "simulator"],
                cwd=ROOT,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            if not line:
                code = self.process.wait()
                errors.seek(0)
                raise RuntimeError(f"the simulator ended with exit code {code}: {errors.read()}")
        said = json.loads(line)
        self.port, self.base_url = said["port"], said["base_url"]

    def set_script(self, script: Script) -> None:
        """Replaces the script; raises `ScriptRefusedError` naming every problem."""
        try:
            self._ask("PUT", "/_sim/script", json.dumps(script).encode())
        except urllib.error.HTTPError as error:
            raise ScriptRefusedError(json.load(error)["error"]["message"]) from error

    def stats(self, *, ids: bool = False) -> dict[str, Any]:
        """The counts; with `ids`, those of each id under `ids`."""
        shown: dict[str, Any] = self._ask("GET", "/_sim/stats" + ("?ids=1" if ids else ""))
        return shown

    def reset(self) -> None:
        """Sets counts, clock and limits to their start; the script stays."""
        self._ask("POST", "/_sim/reset", b"")

    def stop(self) -> int:
        """Ends the process by SIGTERM; gives its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Ends the process by SIGKILL; gives its exit code."""
        return self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> int:
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(by)
        code = process.wait(10)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        url = self.base_url.removesuffix("/v1") + path
        with _DIRECT.open(urllib.request.Request(url, data=body, method=method), timeout=30) as response:
            return json.load(response)


@contextmanager
def simulated(
    script: Script | None = None,
    *,
    seed: str = "0",
    ledger: Path | None = None,
    latency_ms: float = 0,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Simulated]:
    """A simulator on a free port of loopback for the length of a `with` block."""
    settled = {"SIMULATOR_SEED": seed, "SIMULATOR_LATENCY_MS": str(latency_ms), **(environ or {})}
    if ledger is not None:
        settled["SIMULATOR_LEDGER"] = str(ledger)
    running = Simulated(settled)
    running.start()
    try:
        if script is not None:
            running.set_script(script)
        yield running
    finally:
        running.stop()


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """The calls in a ledger, in the order they ended."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
