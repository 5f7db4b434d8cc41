"""A Delta table: one MERGE a run, so one commit that readers see whole or not at all."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from backfill.changes import HELD, ROWS
from backfill.columns import KEY, PREFIX, column, quoted
from backfill.layout import drift, partition_drift
from backfill.target import Ready, Replacement, Target
from backfill.transform import key

# Lets Delta join small files after a run that changed a table; a table that was just made has good ones.
_COMPACT = "spark.databricks.delta.autoCompact.enabled"
_INSERT = f"{PREFIX}insert"
_VIEW = f"{PREFIX}changes"
_NO_TABLE = frozenset(
    {"DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST", "DELTA_MISSING_DELTA_TABLE", "PATH_NOT_FOUND"}
)


class DeltaTarget(Target):
    """A Delta table at a path."""

    @property
    def _name(self) -> str:
        return f"delta.{quoted(self.path)}"

    def existing(self) -> DataFrame | None:
        """See `Target`."""
        try:
            rows = self._read()
        except AnalysisException as error:
            if error.getCondition() in _NO_TABLE:
                return None
            raise
        detail = self.spark.sql(f"DESCRIBE DETAIL {self._name}").select("partitionColumns").first()
        self.refuse(partition_drift(detail[0] if detail else (), self.shape.partition_by))
        self.refuse(drift(rows.schema, self.shape.schema))
        return self.ordered(rows)

    def create(self, rows: DataFrame, ready: Ready) -> None:
        """See `Target`."""
        writer = self.gathered(self.ordered(rows), fresh=True).write.format("delta")
        writer.partitionBy(*self.shape.partition_by).save(self.path)
        ready(self._read())

    def replace(self, new: Replacement, ready: Ready) -> None:
        """See `Target`.

        A key with one old and one new row is updated in place; with more of either, the old rows are deleted and
        the new ones inserted by the same statement.
        """
        rows = new.rows.select(
            fn.when(_single(), fn.col(KEY)).alias(KEY), fn.lit(True).alias(_INSERT), *self._columns()
        )
        gone = new.changed.where(~_single() & fn.col(HELD).isNotNull()).select(KEY, fn.lit(False).alias(_INSERT))
        if self.spark.conf.get(_COMPACT, None) is None:
            self.spark.conf.set(_COMPACT, "true")
        rows.unionByName(gone, allowMissingColumns=True).createOrReplaceTempView(_VIEW)
        try:
            self.spark.sql(self._merge())
        finally:
            self.spark.catalog.dropTempView(_VIEW)
        ready(self._read())

    def _merge(self) -> str:
        names = [quoted(name) for name in self.shape.schema.names]
        target_key = key(self.shape.id_column, self.shape.source, "t.")
        updates = ", ".join(f"t.{name} = s.{name}" for name in names)
        new_row = f"({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
        return "\n".join(
            (
                f"MERGE INTO {self._name} t USING {_VIEW} s ON {target_key} = s.{KEY}",
                f"WHEN MATCHED AND s.{_INSERT} THEN UPDATE SET {updates}",
                "WHEN MATCHED THEN DELETE",
                f"WHEN NOT MATCHED AND s.{_INSERT} THEN INSERT {new_row}",
            )
        )

    def _columns(self) -> list[Column]:
        return [column(name) for name in self.shape.schema.names]

    def _read(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)


def _single() -> Column:
    return (fn.col(ROWS) == 1) & (fn.coalesce(fn.col(HELD), fn.lit(0)) <= 1)
