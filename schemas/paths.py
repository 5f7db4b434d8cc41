"""Where the paths of a job file lead: one rule for all of them."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def locate(folder: Path, path: str) -> str:
    """Resolve a path of a job file: a relative one is local and starts at the folder of the job file.

    An absolute path and one with a scheme (`s3://`, `hdfs://`, `file:`) stay as they are, so that an absolute
    path still means Spark's default file system.
    """
    if path.startswith("/") or _SCHEME.match(path):
        return path
    return f"file://{folder.absolute() / path}"
