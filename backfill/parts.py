"""The parts of a read as Spark takes them. Light to load: Spark plans each read in two Python processes, new ones.

They see no row. What only tasks need (the driver of the database, Arrow) is loaded in the tasks: half a second saved.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa


class Part(InputPartition):
    """One part of a read, by its number from 0."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Reader(DataSourceReader):
    """Reads parts; `query` is a pickled `backfill.source.Query`, which only a task unpacks."""

    def __init__(self, parts: int, query: bytes) -> None:
        self._parts = parts
        self._query = query

    def partitions(self) -> list[InputPartition]:
        """See `DataSourceReader`."""
        return [Part(number) for number in range(self._parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader`."""
        from backfill.source import rows_of

        assert isinstance(partition, Part)
        return rows_of(pickle.loads(self._query), partition.number)  # noqa: S301


def data_source(called: str, columns: StructType, parts: int, query: bytes) -> type[DataSource]:
    """Make the source of one read; it travels whole, so that no process has to load what made it."""

    class FinishedResults(DataSource):
        @classmethod
        def name(cls) -> str:
            return called

        def schema(self) -> StructType:
            return columns

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(parts, query)

    return FinishedResults
