"""Files as this machine reaches them, in place of Hadoop's: what the backfill asks of the folder of a target."""

from __future__ import annotations

from typing import NoReturn

from backfill.errors import WrongJobError
from schemas import arrow_files, spark_connect


class ArrowFiles(arrow_files.ArrowFiles):
    """The file system that a path lies on; raises `WrongJobError` where this machine has no way to it."""

    # Paths are not taken for files of this machine: the server writes them.
    local = False

    def __init__(self, path: str) -> None:
        try:
            super().__init__(path)
        except ValueError as error:
            raise WrongJobError(str(error)) from error

    def absolute(self, path: str) -> str:
        """Give the path as it is: only its owner, the server, could say more."""
        return path

    def move(self, source: str, target: str) -> NoReturn:
        """Move nothing: raises `WrongJobError`, since only a Parquet target is put in the place of another."""
        raise WrongJobError(spark_connect.NO_PARQUET)
