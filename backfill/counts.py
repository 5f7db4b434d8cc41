"""What a run counts, and the sums that must hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as fn

from backfill.changes import CHANGED, FINAL, HELD, RESULT, ROWS
from backfill.columns import IN_SOURCE, STATUS
from backfill.errors import RunFailedError
from schemas.statuses import Status


@dataclass(slots=True)
class Counts:
    """Counts of one run; filled as it goes, by the driver's main thread only.

    `results`: finished results of the job in the database. `rows`: of the source; each is joined (it has an answer
    in the target after the run) or pending. `failed`: of the joined ones, those whose status is failed. `written`:
    rows of the target that were added or replaced. `orphans`: results whose id no row of the source has.
    """

    results: int = 0
    rows: int = 0
    joined: int = 0
    pending: int = 0
    failed: int = 0
    written: int = 0
    orphans: int = 0


def seen(results: DataFrame) -> tuple[DataFrame, Observation]:
    """Count rows on their way."""
    observation = Observation()
    return results.observe(observation, fn.count("*").alias("n")), observation


def joined(rows: DataFrame) -> tuple[DataFrame, Observation]:
    """Count rows after the join on their way, and keep those of the source."""
    observation = Observation()
    in_source = fn.col(IN_SOURCE).isNotNull()
    metrics = {
        "rows": in_source,
        "joined": in_source & fn.col(STATUS).isNotNull(),
        "failed": in_source & (fn.col(STATUS) == Status.FAILED),
        "orphans": ~in_source,
    }
    observed = rows.observe(observation, *(fn.count_if(holds).alias(name) for name, holds in metrics.items()))
    return observed.where(in_source).drop(IN_SOURCE), observation


def ledger_totals() -> list[Column]:
    """Sums over a ledger: those of `Counts`, `seen` (results), and `gone` (rows of the target to be replaced)."""
    has_row, answered, changed = fn.col(ROWS).isNotNull(), fn.col(FINAL).isNotNull(), fn.col(CHANGED)
    sums = {
        "seen": (fn.col(RESULT).isNotNull(), fn.lit(1)),
        "rows": (has_row, fn.col(ROWS)),
        "joined": (has_row & answered, fn.col(ROWS)),
        "failed": (has_row & (fn.col(FINAL) == Status.FAILED), fn.col(ROWS)),
        "orphans": (~has_row, fn.lit(1)),
        "written": (changed, fn.col(ROWS)),
        "gone": (changed, fn.col(HELD)),
    }
    return [fn.coalesce(fn.sum(fn.when(holds, of)), fn.lit(0)).alias(name) for name, (holds, of) in sums.items()]


def check_read(read: int, counted: int) -> None:
    """Raise `RunFailedError` if fewer results came out of the parts of the read than the database counted."""
    if read < counted:
        raise RunFailedError(
            f"the database counts {counted} finished results, but {read} were read; nothing was written"
        )


def check_rows(found: int, expected: int, recount: Callable[[], int]) -> None:
    """Raise `RunFailedError` if the target would have another number of rows than it should.

    What is observed on the way may count the rows of a repeated Spark stage twice, so doubt is settled by counting.
    """
    if found != expected and found != (true := recount()):
        raise RunFailedError(
            f"the target would have {found} rows where {true} belong: a fault of the backfill, report it"
        )
