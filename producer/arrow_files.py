"""Files as this machine reaches them, in the producer's words for what is wrong."""

from __future__ import annotations

from producer.errors import WrongJobError
from schemas import arrow_files


class ArrowFiles(arrow_files.ArrowFiles):
    """The file system that a path lies on; raises `WrongJobError` where this machine has no way to it."""

    def __init__(self, path: str) -> None:
        try:
            super().__init__(path)
        except ValueError as error:
            raise WrongJobError(str(error)) from error
