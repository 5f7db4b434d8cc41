"""An Iceberg table: one MERGE a run, so one snapshot that readers see whole or not at all."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ByteType, ShortType

from backfill.columns import column, quoted
from backfill.errors import WrongJobError
from backfill.layout import drift, partition_drift
from backfill.merge import merge
from backfill.target import Last, Ready, Replacement, Shape, Target, Written, as_they_are
from backfill.transform import replaced

# Above this many files a run that changed the table lets Iceberg join the small ones.
_MOST_FILES = 50
_NO_TABLE = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"})
# One file of metadata a commit would stay for ever otherwise; older snapshots are their owner's to expire.
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class IcebergTarget(Target):
    """An Iceberg table of a catalog; `path` is its name, such as `lake.shop.labelled`."""

    def __init__(self, spark: SparkSession, path: str, shape: Shape) -> None:
        super().__init__(spark, path, shape)
        parts = path.split(".")
        self._name = ".".join(quoted(part) for part in parts)
        self._catalog = parts[0] if len(parts) > 2 else spark.catalog.currentCatalog()
        if spark.conf.get(f"spark.sql.catalog.{self._catalog}", None) is None:
            raise WrongJobError(
                f"target.table: the session has no catalog {self._catalog}: start with `spark-submit --conf "
                f"spark.sql.catalog.{self._catalog}=org.apache.iceberg.spark.SparkCatalog ...` and its own settings"
            )

    @staticmethod
    def fitted(rows: DataFrame) -> DataFrame:
        """See `Target`: Iceberg has no whole numbers below 32 bits."""
        small = [field.name for field in rows.schema if isinstance(field.dataType, ByteType | ShortType)]
        return replaced(rows, {name: column(name).cast("int") for name in small})

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
        self.refuse(partition_drift(self._partitions(), self.shape.partition_by))
        self.refuse(drift(found, self.shape.schema))
        return self.ordered(rows)

    def create(self, rows: DataFrame, ready: Ready, last: Last = as_they_are) -> None:
        """See `Target`."""
        writer = self.fresh(rows, last).writeTo(self._name).using("iceberg")
        for name, value in _PROPERTIES.items():
            writer = writer.tableProperty(name, value)
        if self.shape.partition_by:
            writer = writer.partitionedBy(*(column(name) for name in self.shape.partition_by))
        writer.create()
        ready(Written(self._read()))

    def replace(self, new: Replacement, ready: Ready) -> None:
        """See `Target`."""
        merge(self, self._name, new)
        ready(Written(self._read()))
        if self.spark.table(f"{self._name}.files").count() > _MOST_FILES:
            self.spark.sql(f"CALL {quoted(self._catalog)}.system.rewrite_data_files(table => '{self.path}')")

    def _partitions(self) -> list[str]:
        parts = self.spark.table(f"{self._name}.partitions")
        return parts.select("partition.*").columns if "partition" in parts.columns else []

    def _read(self) -> DataFrame:
        return self.spark.table(self._name)
