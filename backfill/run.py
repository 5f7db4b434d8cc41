"""The story of one run: read source and results, join, compare with the target, write what is new."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from backfill import changes, counts, reading, source, transform
from backfill.columns import llm_schema
from backfill.counts import Counts
from backfill.output_type import output_type
from backfill.settings import JobFile
from backfill.source import Session
from backfill.target import Replacement, Shape, Target
from backfill.target_delta import DeltaTarget
from backfill.target_parquet import ParquetTarget

_KINDS: dict[str, type[Target]] = {"delta": DeltaTarget, "parquet": ParquetTarget}


@dataclass(frozen=True, slots=True)
class Backfill:
    """One run, between its inputs and its target; only the driver's main thread touches it."""

    rows: DataFrame
    results: DataFrame
    target: Target
    file: JobFile
    held: Session
    counts: Counts

    def carry_out(self) -> None:
        """Bring the target up to date; raises `BackfillError` or what Spark raises, the target being as it was."""
        self.counts.results = self.held.snapshot.count
        present = self.target.existing()
        if present is None:
            self._create()
        else:
            self._update(self._keyed(present))

    def _create(self) -> None:
        def ready(table: DataFrame) -> None:
            totals = _first(table.agg(*counts.table_totals(self.file.job.id)))
            counts.check_rows(totals["rows"], self.rows.count())
            self.counts.take(totals)
            self.held.check()

        self.held.check()
        self.target.create(transform.with_answers(self._keyed(self.rows), self._answers()), ready)

    def _update(self, present: DataFrame) -> None:
        rows, answers = self._keyed(self.rows), self._answers()
        book = changes.ledger(rows, answers, present, self.target.shape.llm).persist(StorageLevel.DISK_ONLY)
        try:
            totals = _first(book.agg(*counts.ledger_totals()))
            counts.check_read(totals["seen"], self.counts.results)
            if totals["written"]:
                changed = book.where(changes.CHANGED)
                new = Replacement(changed, changes.replacement(rows, answers, present, changed), present)
                self._replace(new, present.count() - totals["gone"] + totals["written"])
        finally:
            book.unpersist()
        self.counts.take(totals)

    def _replace(self, new: Replacement, expected: int) -> None:
        def ready(table: DataFrame) -> None:
            counts.check_rows(table.count(), expected)
            self.held.check()

        self.held.check()
        self.target.replace(new, ready)

    def _keyed(self, rows: DataFrame) -> DataFrame:
        return transform.keyed(rows, self.file.job.id, self.target.shape.source)

    def _answers(self) -> DataFrame:
        return transform.answers(self.results, _output(self.file), self.file.prompt_version)


def backfill(spark: SparkSession, file: JobFile, held: Session, into: Counts) -> None:
    """Join the finished results of a job into its target, and count what was done.

    Raises `BackfillError` or `SettingsError`, or what Spark raises.
    """
    partition_by = file.job.target.partition_by
    rows = transform.storable(reading.read(spark, file), partition_by)
    schema = StructType([*rows.schema.fields, *llm_schema(_output(file)).fields])
    shape = Shape(schema, len(rows.schema.fields), file.job.id, partition_by)
    target = _KINDS[file.job.target.format](spark, file.target_path, shape)
    results = source.read(spark, held.snapshot, with_json=file.json_schema is not None)
    Backfill(rows, results, target, file, held, into).carry_out()


def _output(file: JobFile) -> DataType | None:
    return None if file.json_schema is None else output_type(file.json_schema)


def _first(rows: DataFrame) -> dict[str, int]:
    row = rows.first()
    assert row is not None
    return row.asDict()
