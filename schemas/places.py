"""Where an error came from, without its words: those may quote a row, a prompt or a secret."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

_FRAMES = 8


def places(error: BaseException) -> list[str]:
    """Name the last frames that an error has passed, the innermost last: file, line, function."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return [f"{frame.filename.rsplit('/', maxsplit=1)[-1]}:{frame.lineno} {frame.name}" for frame in frames]


def trail(error: BaseException) -> Iterator[str]:
    """One line for an error and for each of its causes: its class and where it came from."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield f"{type(cause).__name__} at {', '.join(places(cause)) or 'no known place'}"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
