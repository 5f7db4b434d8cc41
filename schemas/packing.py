"""Our own packages in one zip: what a Spark whose Python has not installed them needs on its path."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

# The oldest time a zip can hold: the same sources make the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)


def pack(root: Path, packages: Iterable[str], target: Path) -> int:
    """Write the Python files of packages below a folder into a zip; tell how many."""
    sources = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sources:
            name = zipfile.ZipInfo(path.relative_to(root).as_posix(), _WHEN)
            archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return len(sources)


@contextmanager
def packed(packages: Iterable[str]) -> Iterator[Path]:
    """Give our own packages as a zip, for as long as it is needed; where we run from a zip already, that one."""
    root = Path(__file__).parents[1]
    if not root.is_dir():
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        archive = Path(folder) / "headrace.zip"
        pack(root, packages, archive)
        yield archive
