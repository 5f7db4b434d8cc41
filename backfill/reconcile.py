"""Prove row by row that what was to be asked, what was answered and what stands in the warehouse agree.

Reads the source, the producer's table of requests and of rejected rows, the finished results and the target; writes
nothing. The lock on the target is held meanwhile, so that no backfill changes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from backfill import changes, fanout, proof, reader, standing, transform
from backfill.columns import KEY
from backfill.fanout import Fanout
from backfill.folders import Folders
from backfill.proof import FOUND, LEASED, WEIGHT, Fault, Fine, Pending
from backfill.results import KNOWN
from backfill.run import find_fanout, opened, output, read_results
from backfill.settings import JobFile
from backfill.source import Session
from backfill.standing import Standing
from backfill.target import Target
from schemas import ids, rejects_table, requests_table

# Ids that are named of each fault.
NAMED = 10
_NO_ID = "\0"


@dataclass(slots=True)
class Findings:
    """Counts by class, of rows and of requests, and for each fault the first ids."""

    standing: Standing
    rows: dict[str, int] = field(default_factory=dict)
    requests: dict[str, int] | None = None
    rejected: tuple[int, int] | None = None
    ids: dict[str, list[str]] = field(default_factory=dict)

    @property
    def faults(self) -> dict[str, int]:
        """Every fault with how often it was found."""
        found = {**self.rows, **(self.requests or {})}
        found[Fault.REJECTS_MISSING] = max(0, self.rejected[0] - self.rejected[1]) if self.rejected else 0
        return {str(fault): found.get(fault, 0) for fault in Fault}

    def told(self) -> dict[str, Any]:
        """All of it for the last line; times in ISO 8601."""
        found, run, joined = {**self.rows, **(self.requests or {})}, self.standing.run, self.standing.backfill
        return {
            "run": run.run if run else None,
            "state": str(run.state) if run else None,
            "last_backfill": joined.started_at.isoformat() if joined else None,
            **{str(fine): found.get(fine, 0) for fine in Fine},
            "rejected": self.rejected[1] if self.rejected else None,
            "pending": {str(pending): found.get(pending, 0) for pending in Pending},
            "faults": self.faults,
            "ids": self.ids,
        }


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One look at everything; only the driver's main thread touches it. `rows` and `present` have their keys."""

    spark: SparkSession
    file: JobFile
    held: Session
    target: Target
    rows: DataFrame
    present: DataFrame
    fan: Fanout | None
    findings: Findings

    def carry_out(self) -> Findings:
        """Judge requests, rejected rows and rows, in this order."""
        known = reader.read(self.spark, self.held.snapshot, KNOWN, former=True)
        asked = fanout.requests(self.spark, self.file)
        if asked is not None:
            self.findings.requests = self._take(self._requests(asked, known))
        rejects = self._rejects(asked)
        self._rows(asked, known, rejects)
        return self.findings

    def _requests(self, asked: DataFrame, known: DataFrame) -> DataFrame:
        told = self.findings.standing
        wanted = asked.where(fn.col(requests_table.ASKED)).select(requests_table.ID, requests_table.FINGERPRINT)
        claims = self.spark.createDataFrame(
            list(told.claims.items()), f"{requests_table.ID} string, {LEASED} boolean"
        )
        proves = told.run is not None and told.run.proves(wanted.count())
        return proof.requests(wanted, known, claims, told.run, proves)

    def _rejects(self, asked: DataFrame | None) -> DataFrame | None:
        """Compare the run's table of rejected rows with its count; gives their keys, None without such a table."""
        run = self.findings.standing.run
        if run is None:
            return None
        table = self._rejects_of(rejects_table.folder(self.file.beside, run.run))
        written = 0 if table is None else table.count()
        self.findings.rejected = (run.rejected, written)
        keys = None if table is None else self._keys_of_rejects(table)
        if asked is not None and run.rejected > written:
            others = _less(self.rows.select(KEY), [_keys(asked), *([] if keys is None else [keys])])
            self._name(Fault.REJECTS_MISSING, others)
        return keys

    def _rows(self, asked: DataFrame | None, known: DataFrame, rejects: DataFrame | None) -> None:
        told = self.findings.standing
        seen = None if asked is None else _keys(asked)
        seen = seen if seen is None or rejects is None else seen.unionByName(rejects)
        results = read_results(self.spark, self.file, self.held, self.fan, None)
        answers = transform.answers(results, output(self.file), self.file.prompt_version)
        book = changes.ledger(self.rows, answers, self.present, self.target.shape.llm, whole=True)
        judged = proof.rows(book, seen, self._young(asked), told.behind)
        self.findings.rows = self._take(judged, known)

    def _young(self, asked: DataFrame | None) -> DataFrame:
        """Keys whose answers have changed since the last backfill, under whatever id they were asked."""
        last = self.findings.standing.backfill
        if last is None:
            return self.rows.select(KEY).limit(0)
        since = reader.read(self.spark, self.held.snapshot, ("id", "fingerprint"), since=last.cursor)
        own = since.select(fn.col("id").alias(KEY))
        if asked is None:
            return own
        shared = asked.join(since.select(requests_table.FINGERPRINT), requests_table.FINGERPRINT, "left_semi")
        return own.unionByName(_keys(shared))

    def _take(self, judged: DataFrame, known: DataFrame | None = None) -> dict[str, int]:
        """Count what was judged, and name the first of each fault; with results also rows that nobody ever knew."""
        judged = judged.persist(StorageLevel.DISK_ONLY)
        try:
            sums = judged.groupBy(FOUND).agg(fn.sum(WEIGHT).cast("long").alias(WEIGHT)).collect()
            found = {row[FOUND]: row[WEIGHT] for row in sums}
            for fault in Fault:
                if fault in found:
                    self._name(fault, judged.where(fn.col(FOUND) == fault))
            if known is not None and found.get(Fine.GONE):
                self._tell_orphans(found, judged.where(fn.col(FOUND) == Fine.GONE), known)
        finally:
            judged.unpersist()
        return found

    def _tell_orphans(self, found: dict[str, int], gone: DataFrame, known: DataFrame) -> None:
        """Tell rows of the target that the source once had from those that nobody has ever read there."""
        rejected = self._folders(rejects_table.address(self.file.beside))
        tables = [self._keys_of_rejects(self.spark.read.parquet(folder)) for folder in rejected]
        asked = [_keys(self.spark.read.parquet(run)) for run in fanout.runs_of_requests(self.spark, self.file)]
        strangers = _less(gone, [known.select(fn.col("id").alias(KEY)), *asked, *tables])
        number = strangers.agg(fn.coalesce(fn.sum(WEIGHT), fn.lit(0))).first()
        assert number is not None
        if number[0]:
            found[Fault.ORPHAN], found[Fine.GONE] = int(number[0]), found[Fine.GONE] - int(number[0])
            self._name(Fault.ORPHAN, strangers)

    def _name(self, fault: Fault, rows: DataFrame) -> None:
        self.findings.ids[str(fault)] = [
            _shown(row[0]) for row in rows.select(KEY).orderBy(KEY).limit(NAMED).collect()
        ]

    def _rejects_of(self, folder: str) -> DataFrame | None:
        return self.spark.read.parquet(folder) if Folders(self.spark, folder).exists(folder) else None

    def _folders(self, address: str) -> list[str]:
        """The newest folders of runs in a table beside the target, as many as of requests are kept."""
        runs = requests_table.complete_runs(Folders(self.spark, address).files(address))
        return [f"{address}/{run}" for run in runs[-requests_table.KEPT_RUNS :]]

    def _keys_of_rejects(self, table: DataFrame) -> DataFrame:
        """The keys of rejected rows: those without an id too, where the table has all columns of the source."""
        job, source = self.file.job, self.target.shape.source
        if set(source.names) <= set(table.columns):
            rows = self.target.fitted(transform.storable(table, job.target.partition_by))
            return transform.keyed(rows, job.id, source).select(KEY)
        if set(ids.columns(job.id)) <= set(table.columns):
            return table.select(fn.expr(ids.sql(job.id)).alias(KEY)).where(fn.col(KEY).isNotNull())
        return self.rows.select(KEY).limit(0)


def reconcile(spark: SparkSession, file: JobFile, held: Session) -> Findings:
    """Compare everything; raises `BackfillError` or `SettingsError`, or what Spark raises."""
    rows, target = opened(spark, file)
    runs = fanout.runs_of_requests(spark, file)
    run = requests_table.run_of(runs[-1].rpartition("/")[2]) if runs else None
    findings = Findings(standing.read(held.snapshot, file.target_name, run))
    fan = find_fanout(spark, file, held)
    try:
        found = target.found()
        present = spark.createDataFrame([], target.shape.schema) if found is None else found
        keyed, present = (transform.keyed(one, file.job.id, target.shape.source) for one in (rows, present))
        return Reconciliation(spark, file, held, target, keyed, present, fan, findings).carry_out()
    finally:
        if fan:
            fan.free()


def _keys(asked: DataFrame) -> DataFrame:
    return asked.select(fn.col(requests_table.ID).alias(KEY))


def _less(rows: DataFrame, others: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda left, other: left.join(other, KEY, "left_anti"), others, rows)


def _shown(key: str) -> str:
    """An id, or for a row without one the hash of its content."""
    return f"(no id) {key.removeprefix(_NO_ID)}" if key.startswith(_NO_ID) else key
