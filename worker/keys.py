"""Keys of endpoints: stripped, never shown, and read again when their file changes."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger(__name__)


class Key:
    """One endpoint's key, from a value or a file; empty when there is none. Its repr shows nothing."""

    def __init__(self, value: str, path: Path | None) -> None:
        self._value = value.strip()
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._trouble: str | None = None

    def __repr__(self) -> str:
        return "Key(***)"

    def __call__(self) -> str:
        """Give the key as it is now; a file that cannot be used leaves the last one standing."""
        if self._path is not None:
            self._tell(self._reread(self._path))
        return self._value

    @property
    def problem(self) -> str | None:
        """What is wrong with the key, in our own words, or None."""
        if self._path is None:
            return _fault(self._value)
        if not self._path.is_file():
            return f"{self._path} is no file"
        try:
            return _fault(_read(self._path))
        except (OSError, UnicodeDecodeError) as error:
            return f"{self._path} cannot be read: {type(error).__name__}"

    def _reread(self, path: Path) -> str | None:
        """Read the file if it is another one than last time; says why it cannot be used."""
        try:
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino)
            if stamp == self._stamp:
                return self._trouble
            value = _read(path)
        except (OSError, UnicodeDecodeError) as error:
            return type(error).__name__
        self._stamp = stamp
        # A file that is rewritten in place is empty for a moment.
        if fault := _fault(value) or ("is empty" if self._value and not value else None):
            return fault
        self._value = value
        return None

    def _tell(self, trouble: str | None) -> None:
        """Say what is wrong with the file once, not at every call."""
        if trouble and trouble != self._trouble:
            log.warning("key.unusable", extra={"path": str(self._path), "what": trouble})
        self._trouble = trouble


def _read(path: Path) -> str:
    return path.read_text(encoding="utf8").strip()


def _fault(value: str) -> str | None:
    return "holds a line break inside: keep one line" if set("\r\n") & set(value) else None
