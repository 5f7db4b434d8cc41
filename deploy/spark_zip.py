"""Zip what Spark's executors need for clusters where the package cannot be installed: `python -m deploy.spark_zip`.

Hand it to `spark-submit --py-files dist/headrace-spark.zip`; drivers of Kafka and Postgres must be on the executors,
and in direct mode what a worker needs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from schemas.packing import pack

PACKAGES = ("schemas", "producer", "backfill", "worker")
TARGET = Path("dist/headrace-spark.zip")


def build(root: Path, target: Path) -> int:
    """Write the Python files of the Spark jobs and of what they share into one zip; tell how many."""
    return pack(root, PACKAGES, target)


def main() -> int:
    """Build the zip in `dist` of this source tree."""
    root = Path(__file__).parents[1]
    count = build(root, root / TARGET)
    print(f"{TARGET}: {count} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
