"""`python -m tests.spark.troubled_job MASTER FOLDER ARGUMENT…`: direct mode of which one task fails once.

It is the first to have told of 30 rows; the file `FOLDER/failed` is the sign that it has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pyarrow import RecordBatch
from pyspark.sql import SparkSession

from producer import answering
from producer.direct import Assignment
from producer.job import main
from tests.spark_session import CONF

_ROWS = 30


class Troubled(Assignment):
    """An assignment whose task fails in the middle."""

    __slots__ = ()
    folder = ""

    def answer(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Answer as usual, until 30 rows are told of."""
        told = 0
        for outcomes in Assignment.answer(self, batches):
            yield outcomes
            told += outcomes.num_rows
            if told >= _ROWS and self._is_first():
                raise ConnectionError("the task's machine went away")

    def _is_first(self) -> bool:
        try:
            Path(self.folder, "failed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def run(master: str, folder: str, arguments: list[str]) -> int:
    """Make the session, then carry the job out in it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    for name, value in CONF.items():
        builder = builder.config(name, value)
    builder.getOrCreate().sparkContext.setLogLevel("FATAL")
    Troubled.folder = folder
    vars(answering)["Assignment"] = Troubled
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2], sys.argv[3:]))
