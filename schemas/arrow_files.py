"""Files as this machine reaches them, without a JVM: what Spark Connect leaves to its client."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

# Hadoop's names of object stores, and Arrow's.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}


class ArrowFiles:
    """The file system that a path lies on; raises `ValueError` where this machine has no way to it."""

    def __init__(self, path: str) -> None:
        try:
            self._fs, _ = _opened(path)
        except (pa.ArrowException, OSError, ValueError) as error:
            # A path may hold the key of its store.
            shown = re.sub("//[^/@]*@", "//", path)
            raise ValueError(
                f"{shown}: under Spark Connect this machine must reach it too: {type(error).__name__}. "
                "Name a shared mount, s3://, gs://, abfs:// or hdfs:// with its client, or run plain spark-submit"
            ) from error

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or folder."""
        return bool(self._kind(path) != fs.FileType.NotFound)

    def listed(self, path: str) -> Iterator[tuple[str, int, int]]:
        """Give name, from the folder on, size and time of each file that a path is or holds, if it is there."""
        root = _within(path).rstrip("/")
        if self._kind(path) == fs.FileType.File:
            found, base = [self._fs.get_file_info(root)], len(os.path.dirname(root))
        else:
            selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
            found, base = self._fs.get_file_info(selector), len(root)
        for file in sorted(found, key=lambda info: str(info.path)):
            if file.is_file:
                yield file.path[base + 1 :], file.size, file.mtime_ns or 0

    def write(self, path: str, text: str) -> None:
        """Make a file, and the folder that it is in."""
        self._fs.create_dir(os.path.dirname(_within(path)), recursive=True)
        with self._fs.open_output_stream(_within(path)) as stream:
            stream.write(text.encode())

    def move(self, source: str, target: str) -> None:
        """Move a folder's files one by one, as every store can; raises `OSError`."""
        for name, *_ in list(self.listed(source)):
            place = f"{_within(target).rstrip('/')}/{name}"
            self._fs.create_dir(os.path.dirname(place), recursive=True)
            self._fs.move(f"{_within(source).rstrip('/')}/{name}", place)
        self.delete(source)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder and all below it, if it is there."""
        match self._kind(path):
            case fs.FileType.Directory:
                self._fs.delete_dir(_within(path))
            case fs.FileType.File:
                self._fs.delete_file(_within(path))

    def _kind(self, path: str) -> fs.FileType:
        return self._fs.get_file_info(_within(path).rstrip("/")).type


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
