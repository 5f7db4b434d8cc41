"""Bodies inflated under a bound, so that a small answer cannot fill the memory."""

from __future__ import annotations

import zlib

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class OversizeError(Exception):
    """The body is larger than the bound."""


class UndecodableError(Exception):
    """The body is not what its Content-Encoding says, or in one we did not ask for."""


class Inflater:
    """Collects the raw chunks of a body; at most `limit` bytes, raw and inflated."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._inflate = _decoder(encoding.strip().lower())
        self._limit = limit
        self._raw = 0
        self._size = 0
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """Take the next raw chunk; raises `OversizeError` or `UndecodableError`."""
        self._raw += len(chunk)
        if self._raw > self._limit:
            raise OversizeError
        part = self._inflated(chunk)
        self._size += len(part)
        self._parts.append(part)

    def whole(self) -> bytes:
        """The whole body."""
        return b"".join(self._parts)

    def _inflated(self, chunk: bytes) -> bytes:
        if self._inflate is None:
            return chunk
        try:
            part = self._inflate.decompress(chunk, self._limit - self._size + 1)
        except zlib.error:
            raise UndecodableError from None
        if self._size + len(part) > self._limit:
            raise OversizeError
        return part


def _decoder(encoding: str) -> zlib._Decompress | None:
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(_GZIP_OR_ZLIB)
    raise UndecodableError
