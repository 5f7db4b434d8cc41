"""A file that is there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from schemas.settings import SettingsError


class PageUnwritableError(Exception):
    """The file cannot be written; what stood there stands there still."""


def check(path: Path) -> None:
    """Refuse a place where no file can come to lie; raises `SettingsError`."""
    if problem := _problem(path):
        raise SettingsError("options", [f"--out {path}: {problem}"])


def write(path: Path, text: str) -> None:
    """Write beside the place and rename; raises `PageUnwritableError`."""
    draft = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}")
    try:
        with draft.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise PageUnwritableError(f"{path}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def _problem(path: Path) -> str | None:
    try:
        if path.exists() and not path.is_file():
            return f"is {'a directory' if path.is_dir() else 'no regular file'}; name a file"
        return None if path.parent.is_dir() else f"there is no directory {path.parent}; make it first"
    except OSError as error:
        return error.strerror or type(error).__name__
