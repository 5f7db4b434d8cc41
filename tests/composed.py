"""What Docker Compose itself makes of the shipped files; it needs no container engine for that."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BASE = ROOT / "docker-compose.yml"
PRODUCTION = ROOT / "deploy" / "compose" / "production.yml"
DIGEST = "@sha256:" + "0" * 64
# What production.yml asks for.
REQUIRED = {
    "KAFKA_BOOTSTRAP_SERVERS": "kafka-a:9093,kafka-b:9093",
    "WORKER_IMAGE": f"registry.example/headrace-worker{DIGEST}",
    "SPARK_IMAGE": f"registry.example/headrace-spark{DIGEST}",
    "HEADRACE_MODELS": "/etc/headrace/models",
    "HEADRACE_SECRETS": "/etc/headrace/secrets",
}
# The first that knows !reset and !override.
_NEEDED = (2, 24)

Config = dict[str, Any]


@functools.cache
def no_compose() -> str | None:
    """Why there is nobody to ask, or None."""
    if not shutil.which("docker"):
        return "no docker on the path"
    asked = subprocess.run(["docker", "compose", "version", "--short"], capture_output=True, text=True, check=False)
    found = re.match(r"v?(\d+)\.(\d+)", asked.stdout.strip())
    if asked.returncode or not found:
        return "docker has no plugin `compose`"
    version = (int(found[1]), int(found[2]))
    return None if version >= _NEEDED else f"docker compose {asked.stdout.strip()} is older than 2.24"


def config(*files: Path, profiles: Sequence[str] = ("*",), **settings: str) -> tuple[Config | None, str]:
    """Merge files with these variables and no others: what comes out, or None, and what was said."""
    named = [word for path in files for word in ("-f", str(path))]
    named += [word for profile in profiles for word in ("--profile", profile)]
    command = ["docker", "compose", *named, "config", "--format", "json"]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**_surroundings(), **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return (json.loads(ended.stdout) if ended.returncode == 0 else None), ended.stderr


def _surroundings() -> Mapping[str, str]:
    """What `docker` needs to find its plugins, and nothing that the files could ask for."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_CONFIG") if name in os.environ}
