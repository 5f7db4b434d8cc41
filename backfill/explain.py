"""Turn what Spark throws into one clear line; values of rows, which Spark likes to quote, are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger

from backfill.errors import BackfillError, RunFailedError

_DEBUG = "`--conf spark.log.level=WARN` shows Spark's own words, which may quote rows"
_AGAIN = "The target is as it was: start the backfill again"
# The first that is found tells; `{0}` is what the pattern caught, which is never a value of a row.
_KNOWN = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"backfill\.errors\.ReadError: (.+)", f"{{0}}. {_AGAIN}"),
        (
            r"ModuleNotFoundError: No module named '([\w.]+)'",
            "the executors' Python lacks the module {0}: install headrace with its extra `spark` there, "
            "or pass --py-files dist/headrace-spark.zip (`make spark-zip`) and set PYSPARK_PYTHON",
        ),
        (
            r"PYTHON_VERSION_MISMATCH",
            "driver and executors run different Pythons: set PYSPARK_PYTHON to the same version",
        ),
        (
            r"OutOfMemoryError|SIGKILL|exit code 137",
            "a Spark process ran out of memory: raise spark.executor.memory or memoryOverhead",
        ),
        (r"No space left on device", f"a disk is full; make room. {_AGAIN}"),
        (r"\[([A-Z][A-Z0-9_.]+)\]", f"Spark ended the run with {{0}}. {_DEBUG}"),
    )
]


# These print each error that has a place in SQL, by a way of their own to standard error.
_LOUD = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def hush() -> None:
    """Keep pyspark from printing the errors that it raises, which quote values of rows: each is told in one line."""
    for name in _LOUD:
        PySparkLogger.getLogger(name).disabled = True


def first_line(error: BaseException) -> str:
    """Give the first line of an error of the analyser, which holds names and no values."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise what Spark throws as an error of ours."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise failure(error) from error


def failure(error: Exception) -> BackfillError:
    """Make a running Spark job's error into ours, with its cause and the next step."""
    if isinstance(error, AnalysisException):
        return RunFailedError(f"Spark refused: {first_line(error)} Nothing was written.")
    text = str(error)
    for pattern, words in _KNOWN:
        if found := pattern.search(text):
            return RunFailedError(words.format(*(group.strip() for group in found.groups())))
    return RunFailedError(f"Spark ended the run with {type(error).__name__}. {_DEBUG}")
