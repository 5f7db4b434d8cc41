"""One MERGE a run, the same words for every table format that has it: readers see the run whole or not at all."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as fn

from backfill.changes import HELD, ROWS
from backfill.columns import KEY, PREFIX, column, quoted
from backfill.target import Replacement, Target
from backfill.transform import key

_INSERT = f"{PREFIX}insert"
_VIEW = f"{PREFIX}changes"


def merge(target: Target, table: str, new: Replacement) -> None:
    """Carry out a replacement in a table, whose name is given as SQL takes it.

    A key with one old and one new row is updated in place; with more of either, the old rows are deleted and
    the new ones inserted by the same statement.
    """
    names = target.shape.schema.names
    rows = new.rows.select(
        fn.when(_single(), fn.col(KEY)).alias(KEY), fn.lit(True).alias(_INSERT), *(column(name) for name in names)
    )
    gone = new.changed.where(~_single() & fn.col(HELD).isNotNull()).select(KEY, fn.lit(False).alias(_INSERT))
    rows.unionByName(gone, allowMissingColumns=True).createOrReplaceTempView(_VIEW)
    try:
        target.spark.sql(_statement(target, table))
    finally:
        target.spark.catalog.dropTempView(_VIEW)


def _statement(target: Target, table: str) -> str:
    names = [quoted(name) for name in target.shape.schema.names]
    target_key = key(target.shape.id_, target.shape.source, "t.")
    updates = ", ".join(f"t.{name} = s.{name}" for name in names)
    new_row = f"({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    return "\n".join(
        (
            f"MERGE INTO {table} t USING {_VIEW} s ON {target_key} = s.{KEY}",
            f"WHEN MATCHED AND s.{_INSERT} THEN UPDATE SET {updates}",
            "WHEN MATCHED THEN DELETE",
            f"WHEN NOT MATCHED AND s.{_INSERT} THEN INSERT {new_row}",
        )
    )


def _single() -> Column:
    return (fn.col(ROWS) == 1) & (fn.coalesce(fn.col(HELD), fn.lit(0)) <= 1)
