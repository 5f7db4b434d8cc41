"""The tables of requests beside a target, read without Spark: one batch of rows at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from schemas import requests_table as table
from schemas.documents import read_document
from schemas.job import Job
from schemas.paths import locate
from schemas.settings import SettingsError

_ROWS_AT_ONCE = 50_000
_LOCAL = re.compile(r"^file:/+", re.IGNORECASE)
_REMOTE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class RequestsUnreadableError(Exception):
    """The tables are not there, or nothing here can read them."""


def read_job(path: Path, job: str) -> str:
    """Find where the tables of a job lie; raises `SettingsError` with all problems of the job file."""
    file = read_document(path, Job, yaml.safe_load)
    if file.job != job:
        raise SettingsError(str(path), [f"job: is {file.job}, not {job}"])
    return table.address(locate(path.absolute().parent, file.target.base))


class RequestTables:
    """All complete runs' tables at one address; raises `RequestsUnreadableError`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._system, self._path = _file_system(address)
        self._files = self._listed()
        self.runs = [table.run_of(folder) for folder in table.complete_runs(self._files)]

    def rows(self, run: str) -> Iterator[tuple[str, str]]:
        """Each id of a run, and the fingerprint of what it asks."""
        from pyarrow import ArrowException

        folder = f"{table.run_folder(run)}/"
        try:
            for name in self._files:
                if name.startswith(folder) and name.endswith(".parquet"):
                    yield from self._of_file(name)
        except (OSError, ArrowException) as error:
            place = f"{self._address}/{folder}"
            raise RequestsUnreadableError(f"{place}: {type(error).__name__} while it was read") from error

    def _of_file(self, name: str) -> Iterator[tuple[str, str]]:
        from pyarrow.parquet import ParquetFile

        columns = [table.ID, table.FINGERPRINT]
        with self._system.open_input_file(f"{self._path}/{name}") as file:
            for batch in ParquetFile(file).iter_batches(_ROWS_AT_ONCE, columns=columns):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _listed(self) -> list[str]:
        from pyarrow.fs import FileSelector

        try:
            found = self._system.get_file_info(FileSelector(self._path, recursive=True, allow_not_found=True))
        except OSError as error:
            raise RequestsUnreadableError(f"{self._address}: {type(error).__name__}") from error
        return sorted(info.path.removeprefix(f"{self._path}/") for info in found if info.is_file)


def _file_system(address: str) -> tuple[Any, str]:
    try:
        from pyarrow import ArrowException
        from pyarrow.fs import FileSystem, LocalFileSystem
    except ImportError:
        raise RequestsUnreadableError("reading Parquet needs pyarrow: pip install 'headrace[spark]'") from None
    if not _REMOTE.match(address):
        return LocalFileSystem(), str(Path(_LOCAL.sub("/", address)).absolute())
    try:
        system, path = FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
    except (ArrowException, ValueError, OSError) as error:
        raise RequestsUnreadableError(f"{address}: {error}") from None
    return system, str(path).rstrip("/")
