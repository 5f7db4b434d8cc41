"""Turn what Spark throws into one clear line; values of rows, which Spark likes to quote, are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from producer.errors import ProducerError, RunFailedError

_OURS = re.compile(r"producer\.errors\.\w+: (.+)")
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|SIGKILL|exit code 137")
_DEBUG = "LOG_LEVEL=DEBUG shows Spark's own words"


def first_line(error: BaseException) -> str:
    """Give the first line of an error of the analyser, which holds names and no values."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn the error of a running Spark job into one of ours, with its cause and the next step."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise failure(error) from error


def failure(error: Exception) -> ProducerError:
    """Find the cause in what Spark says; what it quotes of a row stays out."""
    text = str(error)
    if found := _OURS.search(text):
        return RunFailedError(found[1].strip())
    if found := _MISSING.search(text):
        return RunFailedError(
            f"the executors' Python lacks the module {found[1]}: install headrace with its extra `spark` there, "
            "or pass --py-files dist/headrace-spark.zip (`make spark-zip`) and set PYSPARK_PYTHON"
        )
    if "PYTHON_VERSION_MISMATCH" in text:
        return RunFailedError("driver and executors run different Pythons: set PYSPARK_PYTHON to the same version")
    if _OUT_OF_MEMORY.search(text):
        return RunFailedError("a Spark process ran out of memory: raise spark.executor.memory or memoryOverhead")
    if found := _CONDITION.search(text):
        return RunFailedError(f"Spark ended the run with {found[1]}. {_DEBUG}")
    return RunFailedError(f"Spark ended the run with {type(error).__name__}. {_DEBUG}")
