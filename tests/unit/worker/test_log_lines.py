"""Log lines: one event is one physical line, whatever its values hold, and no text of an exception."""

from __future__ import annotations

import gc
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.settings import LogSettings
from worker import logs
from worker.logs import JsonLines, TextLines

CANARY = "tell-nobody"


def line(
    formatter: logging.Formatter, event: str = "row.stored", error: BaseException | None = None, **extra: Any
) -> str:
    exc_info = (type(error), error, error.__traceback__) if error else None
    record = logging.getLogger("worker.test").makeRecord(
        "worker.test", logging.INFO, "test.py", 7, event, (), exc_info, extra=extra
    )
    return formatter.format(record)


def test_an_event_is_one_json_object() -> None:
    fields = json.loads(line(JsonLines(), id="r-1", rows=3, ok=True, none=None, seconds=0.5))
    assert (fields["event"], fields["level"], fields["logger"]) == ("row.stored", "info", "worker.test")
    assert (fields["id"], fields["rows"], fields["ok"], fields["none"], fields["seconds"]) == (
        "r-1",
        3,
        True,
        None,
        0.5,
    )
    assert fields["time"].endswith("+00:00")


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()])
@pytest.mark.parametrize("char", ["\n", "\r", "\x1b", "\x00", "\u2028", "\u202e", "\x85", "\ud800", "\t"])
def test_an_id_cannot_forge_a_line(formatter: logging.Formatter, char: str) -> None:
    made = line(formatter, id=f'a{char}{{"level":"error"}}', event=f"x{char}y")
    assert char not in made
    assert len(made.splitlines()) == 1
    made.encode()


def test_long_values_are_cut() -> None:
    assert len(json.loads(line(JsonLines(), id="x" * 10_000))["id"]) <= 128
    assert len(line(JsonLines(), event="x" * 10_000)) < 500


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()])
def test_an_exception_is_told_by_its_class_and_place_only(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        made = line(formatter, error=error)
    assert CANARY not in made
    assert "ValueError" in made
    assert "test_log_lines.py" in made


@given(
    st.dictionaries(
        st.sampled_from(["id", "what", "rows"]), st.text() | st.integers() | st.binary() | st.lists(st.text())
    )
)
def test_any_values_make_one_line(extra: dict[str, Any]) -> None:
    made = line(JsonLines(), **extra)
    json.loads(made)
    assert len(made.splitlines()) == 1


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    levels = {name: logging.getLogger(name).level for name in (*logs._OURS, "psycopg.pool")}
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning
    yield
    root.handlers, root.level, logging.raiseExceptions = handlers, level, raising
    sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning = hooks
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("name", ["httpx", "httpcore", "aiohttp", "psycopg", "urllib3", "any.library"])
def test_libraries_that_log_addresses_are_quiet_even_at_debug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    logs.set_up(LogSettings.read({"LOG_LEVEL": "DEBUG"}))
    logging.getLogger(name).info("GET http://llm/?key=%s", CANARY)
    logging.getLogger("worker.test").debug("worker.here")
    assert CANARY not in written.getvalue()
    assert "worker.here" in written.getvalue()


@pytest.mark.usefixtures("restored")
def test_a_log_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    monkeypatch.setattr("sys.stderr", closed)
    logs.set_up(LogSettings.read({}))
    closed.close()
    logging.getLogger("worker.test").error("worker.here")


@pytest.fixture
def told(restored: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Set the log up; gives what was written since, each line parsed."""
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    logs.set_up(LogSettings.read({"LOG_LEVEL": "DEBUG"}))

    def lines() -> list[dict[str, Any]]:
        assert CANARY not in written.getvalue()
        return [json.loads(line) for line in written.getvalue().splitlines()]

    return lines


def test_of_a_librarys_warning_only_the_constant_words_are_told(told: Callable[[], list[dict[str, Any]]]) -> None:
    library = logging.getLogger("asyncio")
    library.warning("executing %s took %.3f seconds", CANARY, 0.2)
    library.error(f"Task exception was never retrieved\nfuture: <Task exception=ValueError('{CANARY}')>")
    events = [line["event"] for line in told()]
    assert events == ["executing %s took %.3f seconds", "Task exception was never retrieved"]


def test_what_nobody_catches_is_told_as_a_line_without_its_words(told: Callable[[], list[dict[str, Any]]]) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError(CANARY)

    def fail() -> None:
        raise ValueError(CANARY)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    Broken()
    gc.collect()
    sys.excepthook(ValueError, ValueError(CANARY), None)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning(CANARY, RuntimeWarning, "/somewhere/file.py", 7)
    found = {line["event"]: line for line in told()}
    assert set(found) == {"thread.broken", "object.broken", "process.broken", "python.warning"}
    assert found["thread.broken"]["error"] == "ValueError"
    assert (found["python.warning"]["what"], found["python.warning"]["at"]) == ("RuntimeWarning", "file.py:7")
