"""Results as a table of Spark's: a snapshot read by several tasks at once, no rows through the driver."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, is_remote

from backfill import connect, jvm, results
from backfill.parts import data_source
from backfill.source import Query, Snapshot

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
    parts = connect.tasks_at_once(spark, MAX_PARTITIONS) if is_remote() else jvm.tasks_at_once(spark)
    parts = min(parts, MAX_PARTITIONS)
    query = Query(snapshot, parts, columns, former, since)
    spark.dataSource.register(data_source(_format(query), results.schema(columns), parts, pickle.dumps(query)))
    return spark.read.format(_format(query)).load()


def _format(query: Query) -> str:
    """Name the source for Spark, which knows one of each name: a run reads its results in two ways."""
    return f"{_FORMAT}_{len(query.columns)}"
