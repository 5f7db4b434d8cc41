"""One line for what Spark says in two hundred, and no value of a row in it."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from producer.errors import RunFailedError
from producer.explain import failure, first_line, spark_errors

TASK = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3
Traceback (most recent call last):
  File "/x/producer/writer.py", line 60, in write
producer.errors.DeliveryError: kafka: topic t acknowledged 3 of a task's 5 messages: timed out. Run again
\tat org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:123)
"""
CAST = "[CAST_INVALID_INPUT] The value 'my secret prompt' of the type STRING is no BIGINT. SQLSTATE: 22018"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TASK, "kafka: topic t acknowledged 3 of a task's 5 messages: timed out. Run again"),
        (CAST, "Spark ended the run with CAST_INVALID_INPUT. `--conf spark.log.level=WARN` shows Spark's own words"),
        ("x\nModuleNotFoundError: No module named 'producer'\ny", "the executors' Python lacks the module producer"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has 3.10", "driver and executors run different Pythons"),
        ("java.lang.OutOfMemoryError: Java heap space", "a Spark process ran out of memory"),
        ("the row 'my secret prompt' is odd", "Spark ended the run with PySparkException"),
    ],
)
def test_the_cause_is_told_in_one_line(text: str, line: str) -> None:
    told = str(failure(PySparkException(text)))

    assert told.startswith(line)
    assert "\n" not in told
    assert "secret" not in told


def test_errors_of_a_running_job_become_ours_with_their_cause() -> None:
    with pytest.raises(RunFailedError, match="CAST_INVALID_INPUT") as raised, spark_errors():
        raise PySparkException(CAST)
    assert isinstance(raised.value.__cause__, PySparkException)


def test_the_analyser_is_quoted_by_its_first_line() -> None:
    assert first_line(PySparkException("\n[X] a\nb")) == "[X] a"
    assert first_line(PySparkException("")) == "PySparkException"
