"""What Docker Compose itself makes of the shipped files; it needs no container engine for that."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BASE = ROOT / "docker-compose.yml"
PRODUCTION = ROOT / "deploy" / "compose" / "production.yml"
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


def config(*files: Path, **settings: str) -> tuple[Config | None, str]:
    """Merge files with these variables and no others: what comes out, or None, and what was said."""
    named = [word for path in files for word in ("-f", str(path))]
    command = ["docker", "compose", *named, "--profile", "*", "config", "--format", "json"]
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
