"""What a run changes: source, answers and target compared key by key, by hashes and without any text.

The rules. A row of the source is in the target once, whatever its state. Its answer there is replaced by another
one unless that one is older, and never by nothing; so a row that is being asked again keeps its answer until the
new one is there. An answer that is known to be the one to the row's present request replaces any other, whatever its
age: a request that was answered long ago may be a row's present one since today. Rows of the target that the source
no longer shows stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructField, StructType

from backfill.columns import COMPLETED, CURRENT, KEY, PREFIX, STATUS, VERSION
from backfill.transform import content, with_answers

# Columns of the ledger beside the key; see `ledger`.
ROWS = f"{PREFIX}rows"
HELD = f"{PREFIX}held"
RESULT = f"{PREFIX}result"
KEEP = f"{PREFIX}keep"
CHANGED = f"{PREFIX}changed"
FINAL = f"{PREFIX}final_status"
# What the rows of a key look like in source and target, without the answer; the best of the target's answers and the
# worst, which is another one if its rows disagree.
SHAPE = f"{PREFIX}shape"
HELD_SHAPE = f"{PREFIX}held_shape"
BEST = f"{PREFIX}best"
WORST = f"{PREFIX}worst"

_KEPT = f"{PREFIX}kept"
_LOW_HALF = 0xFFFFFFFF


def ledger(
    source: DataFrame, answered: DataFrame, present: DataFrame, llm: StructType, whole: bool = False
) -> DataFrame:
    """One row a key, from keyed rows of the source, answers, and keyed rows of the target.

    Keys that only the target has are left out unless the `whole` is wanted.

    `ROWS`, `HELD`: how many rows source and target have, NULL if none. `RESULT`: a hash of the result, NULL if none.
    `KEEP`: the target's answer stays. `CHANGED`: the target's rows are to be replaced by the source's. `FINAL`: the
    status after this run; NULL is pending.
    """
    fields = [field for field in source.schema if field.name != KEY]
    result = _results(answered, llm)
    joined = _shaped(source, fields, ROWS, SHAPE).join(result, KEY, "full")
    joined = joined.join(_held(present, fields, llm), KEY, "full" if whole else "left")
    keep = fn.coalesce(_keeps(), fn.lit(False))
    return joined.withColumns(
        {
            KEEP: keep,
            CHANGED: fn.col(ROWS).isNotNull() & ~fn.coalesce(_stands(keep), fn.lit(False)),
            FINAL: fn.when(keep, fn.col(BEST)["status"]).otherwise(fn.col(STATUS)),
        }
    )


def replacement(source: DataFrame, answered: DataFrame, present: DataFrame, changed: DataFrame) -> DataFrame:
    """The new rows of the changed keys of a ledger: from the source, with the new answer or the one that is kept.

    Has the key, `ROWS`, `HELD` and the target's columns.
    """
    asked = changed.select(KEY, ROWS, HELD, KEEP)
    fresh = with_answers(source.join(asked, KEY), answered)
    names = [name for name in answered.columns if name not in (KEY, CURRENT)]
    rows = fresh.join(_kept(present, asked, names), KEY, "left")
    choice = {name: fn.when(fn.col(KEEP), fn.col(_KEPT)[name]).otherwise(fn.col(name)) for name in names}
    return rows.withColumns(choice).drop(_KEPT, KEEP)


def _keeps() -> Column:
    """There is an answer, and no other one that is as new, or the present request's, and says something else."""
    best = fn.col(BEST)
    older = fn.coalesce(~fn.col(CURRENT) & (fn.col(COMPLETED) < best["completed"]), fn.lit(False))
    return best["answered"] & (fn.col(RESULT).isNull() | older | (fn.col(RESULT) == best["result"]))


def _stands(keep: Column) -> Column:
    """The target's rows of a key are the source's, agree on one answer, and need no other."""
    agree = (fn.col(SHAPE) == fn.col(HELD_SHAPE)) & fn.col(BEST).eqNullSafe(fn.col(WORST))
    return agree & (keep | fn.col(RESULT).isNull())


def _kept(present: DataFrame, asked: DataFrame, names: Iterable[str]) -> DataFrame:
    standing = present.join(asked.where(KEEP), KEY, "left_semi")
    newest = fn.struct(fn.col(STATUS).isNotNull(), fn.col(COMPLETED))
    return standing.groupBy(KEY).agg(fn.max_by(fn.struct(*names), newest).alias(_KEPT))


def _results(answered: DataFrame, llm: StructType) -> DataFrame:
    return answered.select(KEY, STATUS, COMPLETED, CURRENT, _hash(llm).alias(RESULT))


def _held(present: DataFrame, fields: Iterable[StructField], llm: StructType) -> DataFrame:
    """Also the best answer among the target's rows of a key, and the worst: another one if the rows disagree."""
    answer = fn.struct(
        fn.col(STATUS).isNotNull().alias("answered"),
        fn.col(COMPLETED).alias("completed"),
        fn.when(fn.col(STATUS).isNotNull(), _hash(llm)).alias("result"),
        fn.col(STATUS).alias("status"),
    )
    rows = present.withColumn(BEST, answer)
    return _shaped(rows, fields, HELD, HELD_SHAPE, [fn.max(BEST).alias(BEST), fn.min(BEST).alias(WORST)])


def _hash(llm: StructType) -> Column:
    """A hash of an answer; the prompt's version does not count, so a new job file relabels no old answer."""
    return fn.expr(content(field for field in llm if field.name != VERSION))


def _shaped(
    rows: DataFrame, fields: Iterable[StructField], count: str, shape: str, more: Iterable[Column] = ()
) -> DataFrame:
    """Count the rows of each key and sum their hashes by halves, so that equal sets of rows are told apart."""
    hashed = rows.withColumn(shape, fn.expr(content(fields)))
    halves = [fn.sum(fn.col(shape).bitwiseAND(_LOW_HALF)), fn.sum(fn.shiftrightunsigned(shape, 32))]
    return hashed.groupBy(KEY).agg(
        fn.count("*").alias(count), fn.concat_ws(":", fn.count("*"), *halves).alias(shape), *more
    )
