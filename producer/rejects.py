"""The table of rejected rows beside the target: the source's columns, the reason and its detail."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from producer.settings import JobFile
from producer.source import Table
from producer.verdicts import DETAIL, REASON
from schemas import rejects_table


def folder(file: JobFile, run: str) -> str:
    """Name the folder of one run's rejected rows."""
    return rejects_table.folder(file.locate(file.job.target.base), run)


def rejected(judged: DataFrame, table: Table) -> DataFrame:
    """Keep the rejected rows, with the source's columns as they were read."""
    verdict = column(names.VERDICT)
    why = [verdict["reason"].alias(REASON), verdict["detail"].alias(DETAIL)]
    return judged.where(verdict.isNotNull()).select(*(column(name) for name in table.rows.columns), *why)


def write(rows: DataFrame, path: str) -> int:
    """Write rejected rows in one committed write, in place of an earlier try of the same run; tell how many."""
    written = Observation()
    rows.observe(written, fn.count(fn.lit(1)).alias("rows")).write.mode("overwrite").parquet(path)
    return int(written.get["rows"])
