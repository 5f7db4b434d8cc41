"""The table of requests as a run writes it before it knows whether any repeats, beside the folders that count.

Most tables repeat nothing: then the draft becomes the run's folder as it stands, and no row is written twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from producer.errors import ProducerError, RunFailedError
from producer.explain import spark_errors
from producer.folders import Folders
from schemas import requests_table as table

# Spark hides a folder of such a name from whoever reads the table by its address.
_FOLDER = "_draft-"


def killed(before: str, files: Iterable[str]) -> set[str]:
    """Name the drafts among a table's files that runs before a certain one, long over, have left behind."""
    folders = {file.partition("/")[0] for file in files if file.startswith(_FOLDER)}
    return {folder for folder in folders if folder.removeprefix(_FOLDER) < before}


@dataclass(frozen=True, slots=True)
class Draft:
    """Rows that lie in a folder of their own, where nobody looks for them until `become`."""

    spark: SparkSession
    folder: str
    rows: DataFrame

    @staticmethod
    def write(address: str, run: str, rows: DataFrame) -> Draft:
        """Write the rows of a run below the table's address, each task its own file."""
        spark, folder = rows.sparkSession, f"{address}/{_FOLDER}{run}"
        unmarked = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
        rows.write.mode("overwrite").options(**table.WRITTEN, **unmarked).parquet(folder)
        return Draft(spark, folder, spark.read.schema(rows.schema).parquet(folder))

    def files(self) -> int:
        """Count the files that hold rows or the schema of none."""
        return sum(name.endswith(".parquet") for name in self._folders.files(self.folder))

    def become(self, folder: str) -> None:
        """Turn into a complete folder: its mark comes last, since some stores move one file after the other.

        Raises `RunFailedError`.
        """
        try:
            self._folders.delete(folder)
            self._folders.move(self.folder, folder)
            self._folders.create(f"{folder}/{table.COMPLETE}")
        except OSError as error:
            raise RunFailedError(
                f"{self.folder} cannot become {folder}: {type(error).__name__}: run again"
            ) from error

    def discard(self) -> None:
        """Delete it, unless it is something else by now; one that cannot be deleted does no harm."""
        with suppress(ProducerError, OSError), spark_errors():
            self._folders.delete(self.folder)

    @property
    def _folders(self) -> Folders:
        return Folders(self.spark, self.folder)
