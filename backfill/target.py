"""The table that the answers are joined into: what each kind of target does for a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from backfill.columns import column
from backfill.errors import RunFailedError
from schemas.ids import Id

# What is done to the rows of a new table as the last thing before the write, in the tasks that write.
Last = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the target is to look like: its columns in their order, the one with the id, and its partitions."""

    schema: StructType
    source_columns: int
    id_: Id
    partition_by: Sequence[str]

    @property
    def source(self) -> StructType:
        """The columns that come from the source."""
        return StructType(self.schema.fields[: self.source_columns])

    @property
    def llm(self) -> StructType:
        """The columns of the answer."""
        return StructType(self.schema.fields[self.source_columns :])


@dataclass(frozen=True, slots=True)
class Written:
    """A table as it is with this run; `counted`: its rows, where the files themselves tell them."""

    table: DataFrame
    counted: int | None = None

    def rows(self) -> int:
        """Count its rows, by a job of Spark's if need be."""
        return self.table.count() if self.counted is None else self.counted


# Takes the table with this run; raises if its rows do not add up, or if the lock was lost.
Ready = Callable[[Written], None]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Keys whose rows are replaced.

    `changed`: one row a key, of the ledger. `rows`: their new rows, with key and ledger columns. `present`: the keyed
    rows that the target has now.
    """

    changed: DataFrame
    rows: DataFrame
    present: DataFrame


def as_they_are(rows: DataFrame) -> DataFrame:
    """Do nothing to rows."""
    return rows


class Target(ABC):
    """A table in a warehouse. Readers see the table before a run or the one after it, never one in between.

    `observed`: whether Spark is sure to tell what it observed while such a table is written; it would be waited for.
    """

    observed: ClassVar[bool] = False

    def __init__(self, spark: SparkSession, path: str, shape: Shape) -> None:
        self.spark = spark
        self.path = path
        self.shape = shape

    @abstractmethod
    def existing(self) -> DataFrame | None:
        """The rows that are there, or None if there is no table yet; first clears up after a run that was killed.

        Raises `RunFailedError` if its columns are not the wanted ones.
        """

    def found(self) -> DataFrame | None:
        """The rows that are there, as `existing` gives them, with nothing cleared up."""
        return self.existing()

    @abstractmethod
    def create(self, rows: DataFrame, ready: Ready, last: Last = as_they_are) -> None:
        """Make the table. `ready` is called before it shows, where the format has such a moment, else after."""

    @abstractmethod
    def replace(self, new: Replacement, ready: Ready) -> None:
        """Put new rows in the place of the old ones of the same keys; `ready` as in `create`."""

    @staticmethod
    def fitted(rows: DataFrame) -> DataFrame:
        """Give the source's columns types that the format has."""
        return rows

    def ordered(self, rows: DataFrame) -> DataFrame:
        """Take the wanted columns in their order."""
        return rows.select(*(column(name) for name in self.shape.schema.names))

    def fresh(self, rows: DataFrame, last: Last) -> DataFrame:
        """The rows of a new table as they are to be written."""
        return self.ordered(last(self.gathered(rows, fresh=True)))

    def gathered(self, rows: DataFrame, fresh: bool) -> DataFrame:
        """Bring rows together, so that a run writes a few files (a partition) of a useful size, not one a task.

        `fresh` rows come from one join, whose tasks have that size already, unless partitions cut them up.
        """
        names = self.shape.partition_by
        return rows if fresh and not names else rows.hint("rebalance", *(column(name) for name in names))

    def refuse(self, differences: Sequence[str]) -> None:
        """Raise `RunFailedError` if there are any differences."""
        if differences:
            problems = "; ".join(differences)
            raise RunFailedError(
                f"target {self.path}: {problems}. Nothing was written: rename the target or the column"
            )
