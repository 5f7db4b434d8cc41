"""Folders of a warehouse, on this machine or on any file system that Spark reaches: listed, moved, switched."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
from collections.abc import Iterable

from pyarrow import parquet
from pyspark.sql import SparkSession, is_remote

from backfill.arrow_files import ArrowFiles
from backfill.jvm import HadoopFiles

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# What a kernel or a file system without the exchange answers.
_NOT_THERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EXDEV})


class Folders:
    """A view of the file system that a path lies on: Spark's own, or under Spark Connect that of this machine."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._files = ArrowFiles(path) if is_remote() else HadoopFiles(spark, path)

    @property
    def local(self) -> bool:
        """Whether paths are files of this machine, which can be linked and exchanged."""
        return self._files.local

    def absolute(self, path: str) -> str:
        """Give the full address of a path; on this machine links are followed, so that a switch leaves them be."""
        full = self._files.absolute(path)
        return os.path.realpath(full) if self.local else full

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or folder."""
        return self._files.exists(path)

    def files(self, path: str) -> list[str]:
        """List all files below a folder, each relative to it; empty if there is no such folder."""
        return [name for name, *_ in self._files.listed(path)]

    def rows(self, path: str) -> int | None:
        """Add up the rows of the Parquet files below a local folder, by their footers; None for any other folder."""
        if not self.local:
            return None
        files = (os.path.join(path, name) for name in self.files(path) if name.endswith(".parquet"))
        return sum(int(parquet.read_metadata(file).num_rows) for file in files)

    def stamp(self, path: str) -> str:
        """Sum up names, sizes and times of the files below a folder: another sum means that something has changed."""
        if not self.exists(path):
            return ""
        found = hashlib.sha256()
        for file in self._files.listed(path):
            found.update("{} {} {}\n".format(*file).encode())
        return found.hexdigest()

    def move(self, source: str, target: str) -> None:
        """Rename a folder; the target must not exist, its parent is made."""
        self._files.move(source, target)

    def delete(self, path: str) -> None:
        """Remove a folder and all below it, if it is there."""
        self._files.delete(path)


def exchange(one: str, other: str) -> bool:
    """Let two local folders change names in one step; False where the kernel or the file system has no such step."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    if (code := ctypes.get_errno()) in _NOT_THERE:
        return False
    raise OSError(code, os.strerror(code), one)


def link(files: Iterable[str], source: str, target: str) -> None:
    """Let the same local files, relative to `source`, stand in `target` too, at no cost in space; copy if need be."""
    for name in files:
        old, new = os.path.join(source, name), os.path.join(target, name)
        os.makedirs(os.path.dirname(new), exist_ok=True)
        try:
            os.link(old, new)
        except OSError:
            shutil.copy2(old, new)
