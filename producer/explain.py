"""Turn what Spark throws into one clear line; values of rows, which Spark likes to quote, are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from producer.errors import ProducerError, RunFailedError, WrongJobError

_DEBUG = "`--conf spark.log.level=WARN` shows Spark's own words, which may quote rows"
# What to look for in Spark's words, and what to say then; the first that is found counts.
_CAUSES = (
    (re.compile(r"producer\.errors\.\w+: (.+)"), "{0}"),
    (
        re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'"),
        "the executors' Python lacks the module {0}: install headrace with its extra `spark` there, or pass "
        "--py-files dist/headrace-spark.zip (`make spark-zip`) and set PYSPARK_PYTHON",
    ),
    (
        re.compile(r"(PYTHON_VERSION_MISMATCH)"),
        "driver and executors run different Pythons: set PYSPARK_PYTHON to the same version",
    ),
    (
        re.compile(r"(OutOfMemoryError|SIGKILL|exit code 137)"),
        "a Spark process ran out of memory: raise spark.executor.memory or memoryOverhead",
    ),
    (
        re.compile(r"(CSV header does not conform)"),
        "source.path: the CSV files differ in their headers or line ends: make them alike, or run them apart",
    ),
    (re.compile(r"\[([A-Z][A-Z0-9_.]+)\]"), f"Spark ended the run with {{0}}. {_DEBUG}"),
)


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
def fitting(place: str) -> Iterator[None]:
    """Turn what the analyser objects to into a problem of that place of the job file."""
    try:
        yield
    except PySparkException as error:
        raise WrongJobError(f"job file: {place}: {first_line(error)}") from error


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn the error of a running Spark job into one of ours, with its cause and the next step."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise failure(error) from error


def failure(error: Exception) -> ProducerError:
    """Find the cause in what Spark says; what it quotes of a row stays out."""
    if isinstance(error, Py4JNetworkError):
        return RunFailedError("Spark's own process ended before the run: run again")
    text = str(error)
    for pattern, told in _CAUSES:
        if found := pattern.search(text):
            return RunFailedError(told.format(found[1].strip()))
    return RunFailedError(f"Spark ended the run with {type(error).__name__}. {_DEBUG}")
