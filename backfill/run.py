"""The story of one run: read source and results, join, compare with the target, write what is new."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DataType, StructType

from backfill import changes, counts, fanout, reader, reading, transform
from backfill.columns import CURRENT, llm_schema
from backfill.counts import Counts
from backfill.fanout import Fanout
from backfill.making import Making
from backfill.output_type import output_type, reads_the_same
from backfill.results import KNOWN, columns
from backfill.settings import JobFile
from backfill.source import Session
from backfill.target import Replacement, Shape, Target, Written
from backfill.target_delta import DeltaTarget
from backfill.target_iceberg import IcebergTarget
from backfill.target_parquet import ParquetTarget

_KINDS: dict[str, type[Target]] = {"delta": DeltaTarget, "iceberg": IcebergTarget, "parquet": ParquetTarget}


@dataclass(frozen=True, slots=True)
class Backfill:
    """One run, between its inputs and its target; only the driver's main thread touches it.

    `results`: under the ids of the rows that they are for, which `fanout` has settled if there is one. `present`: the
    target as it was found.
    """

    rows: DataFrame
    results: DataFrame
    fanout: Fanout | None
    target: Target
    present: DataFrame | None
    file: JobFile
    held: Session
    counts: Counts

    def carry_out(self) -> None:
        """Bring the target up to date; raises `BackfillError` or what Spark raises, the target being as it was."""
        snapshot = self.held.snapshot
        self.counts.results = snapshot.count if self._reads_all() else snapshot.fresh
        if self.present is None:
            self._create()
        else:
            self._update(self._keyed(self.present))

    def _reads_all(self) -> bool:
        return self.present is None or (self.fanout is not None and self.fanout.shared)

    def _create(self) -> None:
        making = Making(self._keyed(self.rows), self._answers(), self.target.observed)

        def ready(made: Written) -> None:
            totals = making.totals(made)
            counts.check_rows(totals["rows"], totals["read"])
            totals |= self._shared() or making.results(made.table, self.file.job.id, totals, self.counts.results)
            counts.check_read(totals["seen"], self.counts.results)
            self.counts.take(totals)
            self.held.check()

        self.held.check()
        self.target.create(making.rows, ready, making.last)

    def _update(self, present: DataFrame) -> None:
        rows, answers = self._keyed(self.rows), self._answers()
        book = changes.ledger(rows, answers, present, self.target.shape.llm).persist(StorageLevel.DISK_ONLY)
        try:
            totals = counts.first(book.agg(*counts.ledger_totals())) | self._shared()
            counts.check_read(totals["seen"], self.counts.results)
            if totals["written"]:
                changed = book.where(changes.CHANGED)
                new = Replacement(changed, changes.replacement(rows, answers, present, changed), present)
                self._replace(new, present.count() - totals["gone"] + totals["written"])
        finally:
            book.unpersist()
        self.counts.take(totals)

    def _replace(self, new: Replacement, expected: int) -> None:
        def ready(made: Written) -> None:
            counts.check_rows(made.rows(), expected)
            self.held.check()

        self.held.check()
        self.target.replace(new, ready)

    def _shared(self) -> dict[str, int]:
        """Count results by themselves where one of them may be many rows' answer, or none's; else count nothing."""
        if self.fanout is None or not self.fanout.shared:
            return {}
        return {"seen": self.fanout.read(), "matched": self.fanout.matched(self._keyed(self.rows))}

    def _keyed(self, rows: DataFrame) -> DataFrame:
        return transform.keyed(rows, self.file.job.id, self.target.shape.source)

    def _answers(self) -> DataFrame:
        return transform.answers(self.results, output(self.file), self.file.prompt_version)


def backfill(spark: SparkSession, file: JobFile, held: Session, into: Counts) -> None:
    """Join the finished results of a job into its target, and count what was done.

    Raises `BackfillError` or `SettingsError`, or what Spark raises.
    """
    rows, target = opened(spark, file)
    fan = find_fanout(spark, file, held)
    try:
        present = target.existing()
        results = read_results(spark, file, held, fan, None if present is None else held.snapshot.since)
        Backfill(rows, results, fan, target, present, file, held, into).carry_out()
    finally:
        if fan:
            fan.free()


def opened(spark: SparkSession, file: JobFile) -> tuple[DataFrame, Target]:
    """Open the source, with the types that the target has, and the target; nothing is run.

    Raises `BackfillError` or `SettingsError`.
    """
    partition_by = file.job.target.partition_by
    kind = _KINDS[file.job.target.format]
    rows = kind.fitted(transform.storable(reading.read(spark, file), partition_by))
    schema = StructType([*rows.schema.fields, *llm_schema(output(file)).fields])
    shape = Shape(schema, len(rows.schema.fields), file.job.id, partition_by)
    return rows, kind(spark, file.job.target.table or file.target_path, shape)


def find_fanout(spark: SparkSession, file: JobFile, held: Session) -> Fanout | None:
    """Settle whom the results are for, if the producer has said who asks what."""
    requests = fanout.requests(spark, file)
    return None if requests is None else Fanout.of(requests, reader.read(spark, held.snapshot, KNOWN, former=True))


def read_results(
    spark: SparkSession, file: JobFile, held: Session, fan: Fanout | None, since: str | None
) -> DataFrame:
    """Read the results from a cursor on; all of them where one may be another row's answer."""
    shared = fan is not None and fan.shared
    typed = file.json_schema is not None
    names = columns(with_json=typed, by_request=shared, from_text=typed and reads_the_same(file.json_schema))
    results = reader.read(spark, held.snapshot, names, former=shared, since=None if shared else since)
    return fan.delivered(results) if fan else results.withColumn(CURRENT, fn.lit(False))


def output(file: JobFile) -> DataType | None:
    """Give the type of the parsed answers, None without a JSON schema."""
    return None if file.json_schema is None else output_type(file.json_schema)
