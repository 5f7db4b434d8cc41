"""One id, one message: rows that share an id are settled, and only they are shuffled.

Of rows with the same id and the same request one stays; that two ids ask the same is settled in `distinct`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from producer.verdicts import Reject, reject

_HASH = f"{names.PREFIX}hash"


def repeated_ids(rows: DataFrame, id_: Column) -> DataFrame:
    """Find the hashes that more than one id has; reads the id's columns alone where the format allows it.

    Two ids may meet in one hash, which only means that they are looked at more closely.
    """
    hashes = rows.where(id_.isNotNull()).select(_hash(id_).alias(_HASH))
    return hashes.groupBy(_HASH).count().where("count > 1").select(_HASH)


def without(rows: DataFrame, id_: Column, repeated: DataFrame) -> DataFrame:
    """Keep the rows whose id is theirs alone, and those without an id."""
    return rows.join(repeated, (_hash(id_) == column(_HASH)) & id_.isNotNull(), "left_anti")


def only(rows: DataFrame, id_: Column, repeated: DataFrame) -> DataFrame:
    """Keep the rows whose id other rows may have too."""
    return rows.join(repeated, (_hash(id_) == column(_HASH)) & id_.isNotNull(), "left_semi")


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


def _hash(id_: Column) -> Column:
    return fn.xxhash64(id_)
