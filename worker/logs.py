"""One line per event: ids, counts, codes and times, never a prompt, an answer or a key."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

from schemas.settings import LogSettings

_MOST_CHARS = 128
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Chatty libraries: httpx, say, logs each URL at INFO.
_QUIET = ("httpx", "httpcore", "aiohttp", "asyncio", "psycopg")


class JsonLines(logging.Formatter):
    """An event as one JSON object; control characters are escaped, long values cut."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        return json.dumps(_fields(record), ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """The same event for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        fields = _fields(record)
        head = " ".join(str(fields.pop(name)) for name in ("time", "level", "event"))
        return " ".join([head, *(f"{name}={json.dumps(value, default=str)}" for name, value in fields.items())])


def set_up(settings: LogSettings) -> None:
    """Send every logger's events to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    logging.basicConfig(level=settings.level, handlers=[handler], force=True)
    # A log that cannot be written must not stop the work.
    logging.raiseExceptions = False
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    # It says at each try what our own lines say once a minute.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "event": _cut(record.getMessage()),
        "logger": record.name,
    }
    fields |= {name: _cut(value) for name, value in vars(record).items() if name not in _STANDARD}
    if record.exc_info and record.exc_info[1] is not None:
        fields["error"] = type(record.exc_info[1]).__name__
        fields["at"] = _places(record.exc_info[1])
    return fields


def _cut(value: object) -> object:
    """Bound a value; line breaks and escapes become visible, so that one event stays one physical line."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)[:_MOST_CHARS]
    return text.encode("unicode_escape").decode() if not text.isprintable() else text


def _places(error: BaseException) -> list[str]:
    """Where an exception came from; its text may quote data and is left out."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return [f"{frame.filename.rsplit('/', maxsplit=1)[-1]}:{frame.lineno} {frame.name}" for frame in frames]
