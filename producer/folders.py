"""Folders on any file system that Spark reaches: listed, moved and deleted."""

from __future__ import annotations

from pyspark.sql import SparkSession, is_remote

from producer.arrow_files import ArrowFiles
from producer.jvm import HadoopFiles


class Folders:
    """A view of the file system that a path lies on: Spark's own, or under Spark Connect that of this machine."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._files = ArrowFiles(path) if is_remote() else HadoopFiles(spark, path)

    def files(self, path: str) -> list[str]:
        """List all files below a folder, each relative to it; empty if there is no such folder."""
        return [name for name, *_ in self._files.listed(path)]

    def create(self, path: str) -> None:
        """Make an empty file."""
        self._files.write(path, "")

    def move(self, source: str, target: str) -> None:
        """Move a folder to where nothing is; raises `OSError`."""
        self._files.move(source, target)

    def delete(self, path: str) -> None:
        """Remove a folder and all below it, if it is there."""
        self._files.delete(path)
