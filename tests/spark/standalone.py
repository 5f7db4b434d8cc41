"""A small cluster on this machine, out of pyspark's own jars: a master, and workers with an address each."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from deploy.local import ports
from tests.fleet import wait_for

SPARK_HOME = Path(pyspark.__file__).parent
# Spark starts a second copy of a slow task on another host only; all of 127/8 is this machine.
HOSTS = ("127.0.0.1", "127.0.0.2")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_CONF = {
    "spark.driver.host": HOSTS[0],
    "spark.driver.bindAddress": HOSTS[0],
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # No task before every executor is there.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}
# What the tests run in is not what a cluster's machines have.
_OURS = ("LLM_", "KAFKA_", "PYSPARK_", "SPARK_", "PYTHON", "VIRTUAL_ENV", "DATABASE_URL")


@dataclass(frozen=True)
class Cluster:
    """A running master with a worker of one core on each of `HOSTS`; logs and scratch files are in `folder`."""

    master: str
    folder: Path

    def submit(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        conf: Mapping[str, str] | None = None,
        cwd: Path = Path("/"),
    ) -> subprocess.CompletedProcess[str]:
        """Run `spark-submit` with options, script and arguments, from another folder, to its end."""
        settled = {**_CONF, "spark.local.dir": str(self.folder / "scratch"), **(conf or {})}
        options = [part for name, value in settled.items() for part in ("--conf", f"{name}={value}")]
        return subprocess.run(
            [str(SPARK_HOME / "bin/spark-submit"), "--master", self.master, *options, *command],
            cwd=cwd,
            env={**bare_environment(), **environ},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )


def bare_environment() -> dict[str, str]:
    """The environment of a machine that knows Spark and nothing of this project."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**clean, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": HOSTS[0], "SPARK_DAEMON_MEMORY": "256m"}


@contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    """A cluster for the length of a block; all of its processes end with it."""
    folder.mkdir(parents=True, exist_ok=True)
    port, ui = ports.choose(["master", "ui"], {}).values()
    made = Cluster(f"spark://{HOSTS[0]}:{port}", folder)
    with ExitStack() as daemons:
        own = ["--host", HOSTS[0], "--port", str(port), "--webui-port", str(ui)]
        daemons.enter_context(_daemon(folder, "master", "org.apache.spark.deploy.master.Master", *own))
        for host in HOSTS:
            own = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "640m"]
            own += ["--work-dir", str(folder / f"work-{host}"), made.master]
            daemons.enter_context(_daemon(folder, host, "org.apache.spark.deploy.worker.Worker", *own))
        wait_for(lambda: _alive(ui) == len(HOSTS), 90, lambda: _logs(folder))
        yield made


@contextmanager
def _daemon(folder: Path, name: str, *command: str) -> Iterator[None]:
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin/spark-class"), *command], cwd="/", env=bare_environment(), stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _alive(ui: int) -> int:
    try:
        with _DIRECT.open(f"http://{HOSTS[0]}:{ui}/json/", timeout=5) as response:
            told: dict[str, Any] = json.load(response)
    except OSError:
        return 0
    return sum(worker["state"] == "ALIVE" for worker in told["workers"])


def _logs(folder: Path) -> str:
    return "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
