"""What a run counts, and the sums that must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from backfill.changes import CHANGED, FINAL, HELD, RESULT, ROWS
from backfill.columns import STATUS
from backfill.errors import RunFailedError
from schemas import ids
from schemas.ids import Id
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

    def take(self, totals: Mapping[str, int]) -> None:
        """Take the counts out of `table_totals` or `ledger_totals`."""
        self.rows, self.joined, self.failed = totals["rows"], totals["joined"], totals["failed"]
        self.written, self.pending = totals["written"], totals["rows"] - totals["joined"]
        self.orphans = self.results - totals["matched"]


def table_totals(of: Column) -> list[Column]:
    """Sums over the rows of a new table, which are those that a condition holds for; of its columns one is read."""
    return [
        fn.count_if(of).alias("rows"),
        fn.count(fn.when(of, fn.col(STATUS))).alias("joined"),
        fn.count_if(of & (fn.col(STATUS) == Status.FAILED)).alias("failed"),
        fn.count_if(of).alias("written"),
    ]


def matched(id_: Id) -> Column:
    """Count the results that rows of a table have, by their ids: one that many rows have counts once."""
    return fn.count_distinct(fn.when(fn.col(STATUS).isNotNull(), fn.expr(ids.sql(id_)))).alias("matched")


def first(rows: DataFrame) -> dict[str, int]:
    """Take the one row of sums."""
    row = rows.first()
    assert row is not None
    return row.asDict()


def ledger_totals() -> list[Column]:
    """Sums over a ledger, and `seen`: results that were read, and `gone`: rows of the target to be replaced."""
    has_row, changed, final = fn.col(ROWS).isNotNull(), fn.col(CHANGED), fn.col(FINAL)
    sums = {
        "seen": (fn.col(RESULT).isNotNull(), fn.lit(1)),
        "matched": (has_row & fn.col(RESULT).isNotNull(), fn.lit(1)),
        "rows": (has_row, fn.col(ROWS)),
        "joined": (has_row & final.isNotNull(), fn.col(ROWS)),
        "failed": (has_row & (final == Status.FAILED), fn.col(ROWS)),
        "written": (changed, fn.col(ROWS)),
        "gone": (changed, fn.col(HELD)),
    }
    return [fn.coalesce(fn.sum(fn.when(holds, of)), fn.lit(0)).alias(name) for name, (holds, of) in sums.items()]


def check_read(read: int, counted: int) -> None:
    """Raise `RunFailedError` if the parts of the read do not add up to what the database counted."""
    if read != counted:
        raise RunFailedError(f"{counted} results are finished, but {read} were read; nothing was written")


def check_rows(found: int, expected: int) -> None:
    """Raise `RunFailedError` if the target has, or is about to have, another number of rows than it should."""
    if found != expected:
        raise RunFailedError(f"the target would have {found} rows where {expected} belong: report this fault")
