"""Plain Parquet files: a new version of the folder is written beside it, checked, and put in its place.

On this machine the two folders change names in one step (Linux `renameat2`), so a reader that opens the path at any
moment, or after a kill at any moment, finds a whole table. Other file systems take two renames: killed between
them, the path is absent until the next backfill puts the old folder back. Partitions that a run does not touch
are the same files before and after (linked) on this machine; elsewhere the whole table is written anew.
"""

from __future__ import annotations

import functools
import operator
import shutil
from collections.abc import Collection
from typing import ClassVar

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from backfill.columns import KEY, column
from backfill.errors import RunFailedError
from backfill.folders import Folders, exchange, link
from backfill.layout import drift, folder_values, is_hidden, partition_drift
from backfill.target import Last, Ready, Replacement, Shape, Target, Written, as_they_are

# One folder of partition values, as text in the order of `partition_by`.
Values = tuple[str | None, ...]
# Above this many touched partitions a filter by their values costs more than reading all of them.
_MOST_FILTERED = 500


class ParquetTarget(Target):
    """A folder of Parquet files, partitioned by `name=value` folders if the job file says so."""

    observed: ClassVar[bool] = True

    def __init__(self, spark: SparkSession, path: str, shape: Shape) -> None:
        self._folders = Folders(spark, path)
        super().__init__(spark, self._folders.absolute(path), shape)
        parent, _, name = self.path.rpartition("/")
        self._new = f"{parent}/.{name}.headrace-new"
        self._old = f"{parent}/.{name}.headrace-old"

    def existing(self) -> DataFrame | None:
        """See `Target`; also refuses a folder that holds files of others, since a switch would drop them."""
        self._recover()
        return self.found()

    def found(self) -> DataFrame | None:
        """See `Target`."""
        visible = [file for file in self._folders.files(self.path) if not is_hidden(file)]
        if others := [file for file in visible if not file.endswith(".parquet")]:
            raise RunFailedError(f"target {self.path} holds {others[0]}: give the table a folder of its own")
        if not visible:
            return None
        names = self.shape.partition_by
        physical = self.spark.read.parquet(self.path).schema
        data = [field for field in physical if field.name not in names]
        wanted = [field for field in self.shape.schema if field.name not in names]
        self.refuse(partition_drift(list(folder_values(visible[0])), names))
        self.refuse(drift(data, wanted))
        return self._read(self.path)

    def create(self, rows: DataFrame, ready: Ready, last: Last = as_they_are) -> None:
        """See `Target`."""
        self._write(self.fresh(rows, last))
        self._show(ready)

    def replace(self, new: Replacement, ready: Ready) -> None:
        """See `Target`."""
        rows = new.rows.persist(StorageLevel.DISK_ONLY)
        try:
            touched = self._touched(rows, new)
            kept = new.present.where(self._within(touched)).join(new.changed, KEY, "left_anti")
            self._write(self.gathered(self.ordered(kept).unionByName(self.ordered(rows)), fresh=False))
        finally:
            rows.unpersist()
        if touched is not None:
            link((file for file in self._data() if self._values(file) not in touched), self.path, self._new)
        self._show(ready)

    def _read(self, path: str) -> DataFrame:
        # Told and not guessed: a folder `day=0123` is text if the source's column is.
        return self.ordered(self.spark.read.schema(self.shape.schema).parquet(path))

    def _write(self, rows: DataFrame) -> None:
        self._folders.delete(self._new)
        rows.write.partitionBy(*self.shape.partition_by).parquet(self._new)

    def _show(self, ready: Ready) -> None:
        ready(Written(self._read(self._new), self._folders.rows(self._new)))
        if not self._folders.exists(self.path):
            self._folders.move(self._new, self.path)
            return
        if self._folders.local:
            shutil.copymode(self.path, self._new)
        if not (self._folders.local and exchange(self._new, self.path)):
            self._folders.move(self.path, self._old)
            self._folders.move(self._new, self.path)
        self._recover()

    def _recover(self) -> None:
        if self._folders.exists(self._old) and not self._folders.exists(self.path):
            self._folders.move(self._old, self.path)
        self._folders.delete(self._old)
        self._folders.delete(self._new)

    def _touched(self, rows: DataFrame, new: Replacement) -> Collection[Values] | None:
        """The partitions that lose or get a row; None if all are to be written."""
        if not (self.shape.partition_by and self._folders.local):
            return None
        texts = [column(name).cast("string") for name in self.shape.partition_by]
        losing = new.present.join(new.changed, KEY, "left_semi").select(*texts)
        found = {tuple(row) for row in losing.union(rows.select(*texts)).distinct().toLocalIterator()}
        return found if len(found) <= _MOST_FILTERED else None

    def _within(self, touched: Collection[Values] | None) -> Column:
        if touched is None:
            return fn.lit(True)
        names = self.shape.partition_by
        folders = [
            functools.reduce(
                operator.and_,
                (
                    column(name).cast("string").eqNullSafe(fn.lit(value))
                    for name, value in zip(names, row, strict=True)
                ),
            )
            for row in touched
        ]
        return functools.reduce(operator.or_, folders)

    def _data(self) -> list[str]:
        return [file for file in self._folders.files(self.path) if not is_hidden(file)]

    def _values(self, file: str) -> Values:
        values = folder_values(file)
        return tuple(values[name] for name in self.shape.partition_by)
