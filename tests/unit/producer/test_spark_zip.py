"""The zip for clusters without the package."""

from __future__ import annotations

import zipfile
from pathlib import Path

from deploy.spark_zip import build

ROOT = Path(__file__).parents[3]


def test_it_holds_both_jobs_what_they_share_and_the_worker_of_direct_mode(tmp_path: Path) -> None:
    count = build(ROOT, tmp_path / "dist/spark.zip")
    names = zipfile.ZipFile(tmp_path / "dist/spark.zip").namelist()

    assert count == len(names)
    assert {"producer/job.py", "backfill/__init__.py", "schemas/job.py", "worker/core/retry.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"producer", "backfill", "schemas", "worker"}
    assert all(name.endswith(".py") for name in names)


def test_the_same_sources_make_the_same_bytes(tmp_path: Path) -> None:
    build(ROOT, tmp_path / "a.zip")
    build(ROOT, tmp_path / "b.zip")

    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
