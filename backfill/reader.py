"""Results as a table of Spark's: a snapshot read by several tasks at once, no rows through the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from backfill import results
from backfill.source import Query, Snapshot, rows_of

# A run opens at most so many connections to read with, however large the cluster.
MAX_PARTITIONS = 16
_FORMAT = "headrace_results"


def read(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: Sequence[str],
    former: bool = False,
    since: str | None = None,
) -> DataFrame:
    """The rows of a snapshot, not read yet: as many parts as tasks run at once, at most `MAX_PARTITIONS`.

    The address of the database, which may hold a password, travels inside the pickled reader: it is in no option,
    no plan and no log of Spark's.
    """
    query = Query(snapshot, _parts(spark), columns, former, since)
    spark.dataSource.register(_data_source(query))
    return spark.read.format(_format(query)).load()


def _parts(spark: SparkSession) -> int:
    """Count the parts into which Spark cuts a table by itself: one for each task that runs at once."""
    rows = spark.range(MAX_PARTITIONS).select(fn.spark_partition_id()).collect()
    return min(1 + max(int(row[0]) for row in rows), MAX_PARTITIONS)


class _Part(InputPartition):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Reader(DataSourceReader):
    def __init__(self, query: Query) -> None:
        self._query = query

    def partitions(self) -> list[InputPartition]:
        return [_Part(number) for number in range(self._query.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        return rows_of(self._query, partition.number)


def _data_source(query: Query) -> type[DataSource]:
    class FinishedResults(DataSource):
        @classmethod
        def name(cls) -> str:
            return _format(query)

        def schema(self) -> StructType:
            return results.schema(query.columns)

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Reader(query)

    return FinishedResults


def _format(query: Query) -> str:
    """Name the source for Spark, which knows one of each name: a run reads its results in two ways."""
    return f"{_FORMAT}_{len(query.columns)}"
