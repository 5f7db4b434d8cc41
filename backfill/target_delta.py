"""A Delta table: one MERGE a run, so one commit that readers see whole or not at all."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from backfill.columns import quoted
from backfill.layout import drift, partition_drift
from backfill.merge import merge
from backfill.target import Last, Ready, Replacement, Target, Written, as_they_are

# Lets Delta join small files after a run that changed a table; a table that was just made has good ones.
_COMPACT = "spark.databricks.delta.autoCompact.enabled"
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
            # Over Spark Connect a table is opened when it is asked for its columns.
            found = rows.schema
        except AnalysisException as error:
            if error.getCondition() in _NO_TABLE:
                return None
            raise
        detail = self.spark.sql(f"DESCRIBE DETAIL {self._name}").select("partitionColumns").first()
        self.refuse(partition_drift(detail[0] if detail else (), self.shape.partition_by))
        self.refuse(drift(found, self.shape.schema))
        return self.ordered(rows)

    def create(self, rows: DataFrame, ready: Ready, last: Last = as_they_are) -> None:
        """See `Target`."""
        writer = self.fresh(rows, last).write.format("delta")
        writer.partitionBy(*self.shape.partition_by).save(self.path)
        ready(Written(self._read()))

    def replace(self, new: Replacement, ready: Ready) -> None:
        """See `Target`."""
        if self.spark.conf.get(_COMPACT, None) is None:
            self.spark.conf.set(_COMPACT, "true")
        merge(self, self._name, new)
        ready(Written(self._read()))

    def _read(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)
