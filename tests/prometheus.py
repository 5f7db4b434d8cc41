"""Prometheus' own programs for tests: Debian's package `prometheus` has them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


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
