"""Files as this machine reaches them, without a JVM: what Spark Connect leaves to its client."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from producer.errors import WrongJobError

# Hadoop's names of object stores, and Arrow's.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}


class ArrowFiles:
    """The file system that a path lies on; raises `WrongJobError` where this machine has no way to it."""

    def __init__(self, path: str) -> None:
        try:
            self._fs, _ = _opened(path)
        except (pa.ArrowException, OSError, ValueError) as error:
            # A path may hold the key of its store.
            shown = re.sub("//[^/@]*@", "//", path)
            raise WrongJobError(
                f"{shown}: under Spark Connect this machine must reach it too: {type(error).__name__}. "
                "Name a shared mount, s3://, gs://, abfs:// or hdfs:// with its client, or run plain spark-submit"
            ) from error

    def listed(self, path: str) -> Iterator[tuple[str, int, int]]:
        """Give name, from the folder on, size and time of each file below a folder, if it is there."""
        root = _within(path).rstrip("/")
        found = self._fs.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
        for file in sorted(found, key=lambda info: str(info.path)):
            if file.is_file:
                yield file.path[len(root) + 1 :], file.size, file.mtime_ns or 0

    def write(self, path: str, text: str) -> None:
        """Make a file, and the folder that it is in."""
        self._fs.create_dir(os.path.dirname(_within(path)), recursive=True)
        with self._fs.open_output_stream(_within(path)) as stream:
            stream.write(text.encode())

    def delete(self, path: str) -> None:
        """Remove a file, or a folder and all below it, if it is there."""
        match self._fs.get_file_info(_within(path)).type:
            case fs.FileType.Directory:
                self._fs.delete_dir(_within(path))
            case fs.FileType.File:
                self._fs.delete_file(_within(path))


def _opened(path: str) -> tuple[fs.FileSystem, str]:
    scheme, found, rest = path.partition("://")
    if path.startswith(("/", "file:")):
        return fs.LocalFileSystem(), "/" + path.removeprefix("file:").lstrip("/")
    opened: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
        f"{_SCHEMES.get(scheme, scheme)}{found}{quote(rest, '/@:=')}"
    )
    return opened


def _within(path: str) -> str:
    return _opened(path)[1]
