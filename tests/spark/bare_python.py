"""A Python of its own with certain wheels and nothing else, linked from those that the tests run with."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


def wheels_named(row: str) -> list[str]:
    """The wheels that a row of docs/cluster.md names, as pip takes them."""
    text = (Path(__file__).parents[2] / "docs/cluster.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {row} |")]
    return re.findall(r"`([^`]+)`", line.split("|")[2])


def bare_python(folder: Path, wheels: Iterable[str]) -> Path:
    """Make an environment with these wheels and what they need; gives its interpreter."""
    subprocess.run([sys._base_executable, "-m", "venv", "--without-pip", str(folder)], check=True)  # type: ignore[attr-defined]
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for wheel in _closure(map(Requirement, wheels), set()):
        for name in {file.parts[0] for file in wheel.files or () if file.parts[0] not in ("..", "__pycache__")}:
            link = site / name
            if not link.exists():
                link.symlink_to(Path(str(wheel.locate_file(name))))
    return folder / "bin/python"


def _closure(wanted: Iterable[Requirement], known: set[tuple[str, str]]) -> Iterator[Distribution]:
    for requirement in wanted:
        for extra in ("", *requirement.extras):
            if (requirement.name, extra) in known:
                continue
            known.add((requirement.name, extra))
            found = distribution(requirement.name)
            yield found
            needed = map(Requirement, found.requires or ())
            yield from _closure(
                [each for each in needed if not each.marker or each.marker.evaluate({"extra": extra})], known
            )
