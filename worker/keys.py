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

    def __repr__(self) -> str:
        return "Key(***)"

    def __call__(self) -> str:
        """Give the key as it is now; a file that cannot be read leaves the last one standing."""
        if self._path is not None:
            self._reread(self._path)
        return self._value

    @property
    def problem(self) -> str | None:
        """What is wrong with the key, in our own words, or None."""
        if self._path is not None and not self._path.is_file():
            return f"{self._path} is no file"
        return "holds a line break inside: keep one line" if set("\r\n") & set(self()) else None

    def _reread(self, path: Path) -> None:
        try:
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino)
            if stamp != self._stamp:
                self._value = path.read_text(encoding="utf8").strip()
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            log.warning("key.unreadable", extra={"what": type(error).__name__})
