"""One line per event: ids, counts, codes and times, never a prompt, an answer or a key."""

from __future__ import annotations

import json
import logging
import sys
import threading
import warnings
from datetime import UTC, datetime

from schemas.places import places
from schemas.settings import LogSettings

log = logging.getLogger(__name__)

_MOST_CHARS = 128
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Whose events may hold values. Others may quote anything, httpx each URL at INFO: of them only warnings are told.
_OURS = ("worker", "schemas")


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
    """Send every logger's events to standard error, and what Python itself would print there."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    logging.basicConfig(
        level=max(settings.level, "WARNING", key=logging.getLevelName), handlers=[handler], force=True
    )
    for name in _OURS:
        logging.getLogger(name).setLevel(settings.level)
    # A log that cannot be written must not stop the work.
    logging.raiseExceptions = False
    # It says at each try what our own lines say once a minute.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    _tell_what_nobody_catches()


def _tell_what_nobody_catches() -> None:
    """Python's own ways would print the texts of errors, over several lines."""
    sys.excepthook = lambda _kind, error, _trace: _uncaught("process.broken", error)
    threading.excepthook = lambda found: _uncaught("thread.broken", found.exc_value)
    sys.unraisablehook = lambda found: _uncaught("object.broken", found.exc_value)
    warnings.showwarning = lambda _text, kind, file, number, *_: log.warning(
        "python.warning", extra={"what": kind.__name__, "at": f"{file.rsplit('/', maxsplit=1)[-1]}:{number}"}
    )


def _uncaught(event: str, error: BaseException | None) -> None:
    if not isinstance(error, SystemExit):
        log.critical(event, exc_info=error)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "event": _cut(_event(record)),
        "logger": record.name,
    }
    fields |= {name: _cut(value) for name, value in vars(record).items() if name not in _STANDARD}
    if record.exc_info and record.exc_info[1] is not None:
        fields["error"] = type(record.exc_info[1]).__name__
        fields["at"] = places(record.exc_info[1])
    return fields


def _event(record: logging.LogRecord) -> str:
    """Of a library's line only what is the same each time: its arguments and further lines may quote data."""
    if record.name.partition(".")[0] in _OURS:
        return record.getMessage()
    return str(record.msg).partition("\n")[0]


def _cut(value: object) -> object:
    """Bound a value; line breaks and escapes become visible, so that one event stays one physical line."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)[:_MOST_CHARS]
    return text.encode("unicode_escape").decode() if not text.isprintable() else text
