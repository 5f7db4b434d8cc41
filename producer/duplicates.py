"""One id, one message: rows that share an id are settled, and only they are shuffled.

De-duplication is of rows with the same id and the same request. Two ids with the same request are two messages.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from producer.verdicts import Reject, reject


def repeated_ids(rows: DataFrame, id_: str) -> DataFrame:
    """Find the ids that more than one row has; reads the id's column alone where the format allows it."""
    ids = rows.select(column(id_).cast("string").alias(names.ID))
    counted = ids.where(column(names.ID).isNotNull()).groupBy(names.ID).count()
    return counted.where("count > 1").select(names.ID)


def without(rows: DataFrame, id_: str, repeated: DataFrame) -> DataFrame:
    """Keep the rows whose id is theirs alone, and those without an id."""
    return rows.join(repeated, column(id_).cast("string") == repeated[names.ID], "left_anti")


def only(rows: DataFrame, id_: str, repeated: DataFrame) -> DataFrame:
    """Keep the rows whose id other rows have too."""
    return rows.join(repeated, column(id_).cast("string") == repeated[names.ID], "left_semi")


def unsettled(prepared: DataFrame) -> DataFrame:
    """Mark rows none of which repeats another."""
    return prepared.withColumn(names.REPEATED, fn.lit(False))


def settled(prepared: DataFrame, dedup: bool) -> DataFrame:
    """Settle rows that share an id, those apart that are rejected already.

    With one request among them one row stays and the others are marked as repeated, unless `dedup` is off; with
    several nobody can say which is meant, so all are rejected.
    """
    good = column(names.VERDICT).isNull()
    together = Window.partitionBy(column(names.ID), good)
    request = column(names.FINGERPRINT)
    differ = good & (fn.min(request).over(together) != fn.max(request).over(together))
    detail = fn.concat(fn.count("*").over(together), fn.lit(" rows with this id ask different things"))
    later = fn.row_number().over(together.orderBy(request)) > 1
    return prepared.withColumns(
        {
            names.VERDICT: fn.when(differ, reject(Reject.CONFLICTING_ID, detail)).otherwise(column(names.VERDICT)),
            names.REPEATED: good & ~differ & later if dedup else fn.lit(False),
        }
    )
