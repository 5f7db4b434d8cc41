"""What each key of source and target is found to be, and each request: column expressions, nothing is run here.

A fault is what no later run explains or mends by itself. What is younger than the last backfill is pending.
"""

from __future__ import annotations

from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from backfill.changes import BEST, HELD, HELD_SHAPE, KEEP, RESULT, ROWS, SHAPE, WORST
from backfill.columns import KEY, PREFIX
from backfill.standing import ProducerRun
from schemas import requests_table as table
from schemas.statuses import JobState

FOUND = f"{PREFIX}found"
WEIGHT = f"{PREFIX}weight"
# Marks of a key: the producer has asked it or rejected it; its answer has changed since the last backfill.
SEEN = f"{PREFIX}seen"
YOUNG = f"{PREFIX}young"
# Of a request: it has an end; somebody has it in hand, and whether its lease holds.
ENDED = f"{PREFIX}ended"
LEASED = f"{PREFIX}leased"
_ENDED_BY_ID = f"{PREFIX}ended_by_id"


class Fault(StrEnum):
    """What is wrong."""

    MISSING = "missing"
    DOUBLE = "double"
    DIFFERENT = "different"
    UNDELIVERED = "undelivered"
    ORPHAN = "orphan"
    LOST = "lost"
    REJECTS_MISSING = "rejects_missing"


class Pending(StrEnum):
    """What the next backfill, the workers or the next run of the producer bring."""

    NEW_ROWS = "new_rows"
    CHANGED_ROWS = "changed_rows"
    ANSWERS = "answers"
    IN_FLIGHT = "in_flight"
    WAITING = "waiting"
    CANCELLED = "cancelled"
    UNPROVEN = "unproven"


class Fine(StrEnum):
    """What is as it should be.

    `kept`: the row is asked again, or asks something else by now, and keeps its answer until the new one is there.
    `gone`: the source no longer shows the row, which stays in the target. `without_row`: an answer to no row.
    """

    EXACT = "exact"
    KEPT = "kept"
    GONE = "gone"
    WITHOUT_ROW = "without_row"
    ANSWERED = "answered"


def rows(book: DataFrame, seen: DataFrame | None, young: DataFrame, behind: bool) -> DataFrame:
    """Judge each key of a whole ledger: `FOUND`, and `WEIGHT`, its rows in question.

    `seen` and `young` are keys; without `seen` nothing is known of what the producer has seen. `behind`: the target
    is older than the producer's last run.
    """
    marked = _marked(book, YOUNG, young)
    marked = marked.withColumn(SEEN, fn.lit(True)) if seen is None else _marked(marked, SEEN, seen)
    return marked.select(KEY, _row(fn.lit(behind)).alias(FOUND), _weight().alias(WEIGHT))


def requests(
    asked: DataFrame, ends: DataFrame, claims: DataFrame, run: ProducerRun | None, proves: bool
) -> DataFrame:
    """Judge each request that was to be published; `ends`: results by id and fingerprint, `claims` by id.

    Without the run's proof that all is read, what has no end is pending.
    """
    by_request = (
        ends.where("fingerprint IS NOT NULL").select(table.FINGERPRINT).distinct().withColumn(ENDED, fn.lit(1))
    )
    by_id = ends.where("fingerprint IS NULL").select(table.ID).distinct().withColumn(_ENDED_BY_ID, fn.lit(1))
    known = (
        asked.join(by_request, table.FINGERPRINT, "left").join(by_id, table.ID, "left").join(claims, table.ID, "left")
    )
    return known.select(fn.col(table.ID).alias(KEY), _request(run, proves).alias(FOUND), fn.lit(1).alias(WEIGHT))


def _marked(book: DataFrame, mark: str, keys: DataFrame) -> DataFrame:
    marks = keys.select(KEY).distinct().withColumn(mark, fn.lit(True))
    return book.join(marks, KEY, "left").withColumn(mark, fn.coalesce(fn.col(mark), fn.lit(False)))


def _row(behind: Column) -> Column:
    has, held, best = fn.col(ROWS), _held(), fn.col(BEST)
    answered = fn.coalesce(best["answered"], fn.lit(False))
    told = fn.when(behind | fn.col(YOUNG), Pending.ANSWERS).when(answered, Fault.DIFFERENT)
    return (
        fn.when(has.isNull(), fn.when(held > 0, Fine.GONE).otherwise(Fine.WITHOUT_ROW))
        .when(held < has, fn.when(behind | ~fn.col(SEEN), Pending.NEW_ROWS).otherwise(Fault.MISSING))
        .when(held > has, Fault.DOUBLE)
        .when(fn.col(SHAPE) != fn.col(HELD_SHAPE), fn.when(behind, Pending.CHANGED_ROWS).otherwise(Fault.DIFFERENT))
        .when(~best.eqNullSafe(fn.col(WORST)), Fault.DIFFERENT)
        .when(fn.col(RESULT).isNotNull() & ~fn.col(KEEP), told.otherwise(Fault.UNDELIVERED))
        .when(answered & ~fn.col(RESULT).eqNullSafe(best["result"]), Fine.KEPT)
        .otherwise(Fine.EXACT)
    )


def _weight() -> Column:
    has, held = fn.coalesce(fn.col(ROWS), fn.lit(0)), _held()
    return fn.when(has != held, fn.abs(has - held)).otherwise(fn.greatest(has, fn.lit(1))).cast("long")


def _held() -> Column:
    return fn.coalesce(fn.col(HELD), fn.lit(0))


def _request(run: ProducerRun | None, proves: bool) -> Column:
    ended = fn.col(ENDED).isNotNull() | fn.col(_ENDED_BY_ID).isNotNull()
    is_open = run is not None and run.is_open
    in_hand = fn.col(LEASED) | (fn.col(LEASED).isNotNull() & fn.lit(is_open))
    rest: StrEnum = Fault.LOST if proves else Pending.UNPROVEN
    if is_open:
        rest = Pending.WAITING
    elif run is not None and run.state is JobState.CANCELLED:
        rest = Pending.CANCELLED
    return fn.when(ended, Fine.ANSWERED).when(in_hand, Pending.IN_FLIGHT).otherwise(rest)
