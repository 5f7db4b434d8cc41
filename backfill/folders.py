"""Folders of a warehouse, on this machine or on any file system that Spark reaches: listed, moved, switched."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# What a kernel or a file system without the exchange answers.
_NOT_THERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EXDEV})


class Folders:
    """A view of the file system that a path lies on; calls go through Spark's driver."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._fs = self._path(path).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    @property
    def local(self) -> bool:
        """Whether paths are files of this machine, which can be linked and exchanged."""
        return bool(self._fs.getScheme() == "file")

    def absolute(self, path: str) -> str:
        """Give the full address of a path; on this machine links are followed, so that a switch leaves them be."""
        full = self._fs.makeQualified(self._path(path))
        if not self.local:
            return str(full.toString())
        return os.path.realpath(str(full.toUri().getPath()))

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or folder."""
        return bool(self._fs.exists(self._path(path)))

    def files(self, path: str) -> list[str]:
        """List all files below a folder, each relative to it; empty if there is no such folder."""
        if not self.exists(path):
            return []
        root = self._path(path)
        base = len(self._fs.makeQualified(root).toUri().getPath().rstrip("/")) + 1
        found, listing = [], self._fs.listFiles(root, True)
        while listing.hasNext():
            found.append(str(listing.next().getPath().toUri().getPath())[base:])
        return found

    def stamp(self, path: str) -> str:
        """Sum up names, sizes and times of the files below a folder: another sum means that something has changed."""
        root = self._path(path)
        if not self._fs.exists(root):
            return ""
        found, listing = hashlib.sha256(), self._fs.listFiles(root, True)
        while listing.hasNext():
            file = listing.next()
            found.update(f"{file.getPath()} {file.getLen()} {file.getModificationTime()}\n".encode())
        return found.hexdigest()

    def move(self, source: str, target: str) -> None:
        """Rename a folder; the target must not exist, its parent is made."""
        self._fs.mkdirs(self._path(target).getParent())
        if not self._fs.rename(self._path(source), self._path(target)):
            raise OSError(f"{source} cannot be renamed to {target}")

    def delete(self, path: str) -> None:
        """Remove a folder and all below it, if it is there."""
        self._fs.delete(self._path(path), True)


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
