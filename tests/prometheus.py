"""Prometheus' own programs for tests: Debian's package `prometheus` has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.ports import choose
from tests.fleet import wait_for

_SHIPPED = Path(__file__).parents[1] / "deploy" / "prometheus"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Sample = dict[str, Any]


def program(name: str) -> str:
    """Where `promtool` or `prometheus` is; without it the test is skipped, but fails where CI has to bring it."""
    found = shutil.which(name)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(f"{name} is missing: .ci/run installs it with the package prometheus")
    if found is None:
        pytest.skip(f"no {name} here (Debian: apt install prometheus); the files are checked as they stand")
    return found


def promtool(*arguments: str | Path) -> str:
    """Run promtool; gives what it said, and fails with it."""
    ran = subprocess.run([program("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    return said


@dataclass(frozen=True)
class Server:
    """A running Prometheus."""

    url: str

    def query(self, expr: str) -> list[Sample]:
        """The series that an expression gives now."""
        found = self._ask("query", query=expr)["result"]
        # A scalar is one value and no series.
        return [{"metric": {}, "value": found}] if found and not isinstance(found[0], dict) else found

    def value(self, expr: str) -> float:
        """The one value of an expression; not a number where there is none."""
        found = self.query(expr)
        return float(found[0]["value"][1]) if found else float("nan")

    def alerts(self) -> set[tuple[str, str]]:
        """Names and states of the alerts that are raised."""
        return {(alert["labels"]["alertname"], alert["state"]) for alert in self._ask("alerts")["alerts"]}

    def _ask(self, what: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with _DIRECT.open(url, timeout=10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, Sequence[int]]) -> Iterator[Server]:
    """A Prometheus with the shipped rules and scrape jobs at so many ports of loopback, all of it once a second."""
    port = choose(["prometheus"], {})["prometheus"]
    config = _configured(folder, targets)
    words = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*words, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    server = Server(f"http://127.0.0.1:{port}")
    try:
        wait_for(lambda: _ready(server), 30, lambda: (folder / "prometheus.log").read_text()[-2000:])
        yield server
    finally:
        process.terminate()
        process.wait(20)


def _configured(folder: Path, targets: Mapping[str, Sequence[int]]) -> Path:
    config = yaml.safe_load((_SHIPPED / "prometheus.yml").read_text())
    config["global"] |= {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] in targets]
    for job in config["scrape_configs"]:
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in targets[job["job_name"]]]}]
    for path in (_SHIPPED / "rules").glob("*.yml"):
        rules = yaml.safe_load(path.read_text())
        for group in rules["groups"]:
            group["interval"] = "1s"
        (folder / path.name).write_text(yaml.safe_dump(rules))
    config["rule_files"] = [str(folder / path.name) for path in (_SHIPPED / "rules").glob("*.yml")]
    made = folder / "prometheus.yml"
    made.write_text(yaml.safe_dump(config))
    return made


def _ready(server: Server) -> bool:
    try:
        with _DIRECT.open(f"{server.url}/-/ready", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False
