"""Folders on any file system that Spark reaches: listed and deleted."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class Folders:
    """A view of the file system that a path lies on; calls go through Spark's driver."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._fs = self._path(path).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def files(self, path: str) -> list[str]:
        """List all files below a folder, each relative to it; empty if there is no such folder."""
        root = self._path(path)
        if not self._fs.exists(root):
            return []
        base = len(self._fs.makeQualified(root).toUri().getPath().rstrip("/")) + 1
        found, listing = [], self._fs.listFiles(root, True)
        while listing.hasNext():
            found.append(str(listing.next().getPath().toUri().getPath())[base:])
        return found

    def delete(self, path: str) -> None:
        """Remove a folder and all below it, if it is there."""
        self._fs.delete(self._path(path), True)
