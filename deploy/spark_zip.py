"""Zip what Spark's executors need for clusters where the package cannot be installed: `python -m deploy.spark_zip`.

Hand it to `spark-submit --py-files dist/headrace-spark.zip`; drivers of Kafka and Postgres must be on the executors,
and in direct mode what a worker needs.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

PACKAGES = ("schemas", "producer", "backfill", "worker")
TARGET = Path("dist/headrace-spark.zip")
# The oldest time a zip can hold: the same sources make the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)


def build(root: Path, target: Path) -> int:
    """Write the Python files of the Spark jobs and of what they share into one zip; tell how many."""
    sources = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sources:
            name = zipfile.ZipInfo(path.relative_to(root).as_posix(), _WHEN)
            archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return len(sources)


def main() -> int:
    """Build the zip in `dist` of this source tree."""
    root = Path(__file__).parents[1]
    count = build(root, root / TARGET)
    print(f"{TARGET}: {count} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
