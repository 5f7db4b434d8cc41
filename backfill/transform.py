"""Results to answers, and answers onto rows: column expressions only, nothing is run here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, VariantType

from backfill.columns import COMPLETED, CURRENT, KEY, STATUS, VERSION, column, quoted
from backfill.results import BESIDE_TEXT
from schemas import ids
from schemas.ids import Id

_AS_JSON = (ArrayType, MapType, VariantType)
_VALUE = "value"


def keyed(rows: DataFrame, id_: Id, fields: Iterable[StructField]) -> DataFrame:
    """Add the key that rows are joined and compared by; see `key`."""
    return rows.withColumn(KEY, fn.expr(key(id_, fields)))


def key(id_: Id, fields: Iterable[StructField], table: str = "") -> str:
    """SQL of a row's key: its id or, without one, a hash of `fields`; `table` is a prefix like `t.`.

    No id holds U+0000, so a row without an id meets no answer, and its key spreads such rows over the tasks.
    """
    return f"coalesce({ids.sql(id_, table)}, concat(chr(0), hex({content(fields, table)})))"


def content(fields: Iterable[StructField], table: str = "") -> str:
    """SQL that hashes columns to 64 bits; a NULL counts, fields of structs too; other nested values count as JSON."""
    return f"xxhash64({', '.join(_leaves(fields, table))})"


def _leaves(fields: Iterable[StructField], parent: str) -> Iterator[str]:
    for field in fields:
        name = f"{parent}{quoted(field.name)}"
        yield f"isnull({name})"
        if isinstance(field.dataType, StructType):
            yield from _leaves(field.dataType, f"{name}.")
        else:
            yield f"to_json({name})" if isinstance(field.dataType, _AS_JSON) else name


def answers(results: DataFrame, output: DataType | None, version: str) -> DataFrame:
    """Results as the columns of an answer, beside their key; `output` is None without a JSON schema.

    One an id, as Postgres holds them: its key is `(job, id)`, and a later result takes the earlier one's place.
    `CURRENT` is taken over from the results.
    """
    values = {
        STATUS: fn.col("status"),
        "llm_reason": fn.col("reason"),
        "llm_result": fn.col("result"),
        "llm_output": fn.lit(None).cast("string") if output is None else _output(output, _json(results)),
        "llm_model": fn.col("model"),
        "llm_endpoint": fn.col("endpoint"),
        VERSION: fn.lit(version),
        "llm_run": fn.col("run"),
        "llm_prompt_tokens": fn.col("prompt_tokens"),
        "llm_completion_tokens": fn.col("completion_tokens"),
        "llm_cost_usd": fn.col("cost_usd"),
        "llm_attempts": fn.col("retry_count") + 1,
        "llm_finish_reason": fn.col("finish_reason"),
        COMPLETED: fn.col("completed_at"),
    }
    return results.select(fn.col("id").alias(KEY), CURRENT, *(value.alias(name) for name, value in values.items()))


def with_answers(rows: DataFrame, answered: DataFrame) -> DataFrame:
    """Put answers onto keyed rows; rows without one have NULLs."""
    return rows.join(answered.drop(CURRENT), KEY, "left")


def storable(rows: DataFrame, partition_by: Iterable[str]) -> DataFrame:
    """Make an empty text in a partition column NULL, which is what its folder would make of it on the way back."""
    names = set(partition_by)
    empties = {
        field.name: fn.nullif(column(field.name), fn.lit(""))
        for field in rows.schema
        if field.name in names and isinstance(field.dataType, StringType)
    }
    return replaced(rows, empties)


def replaced(rows: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Put columns in the place of those of the same names; none is no error over Spark Connect either."""
    return rows.withColumns(dict(columns)) if columns else rows


def _json(results: DataFrame) -> Column:
    if BESIDE_TEXT not in results.columns:
        return fn.col("result_json")
    beside = fn.col(BESIDE_TEXT)
    return fn.when(beside == "", fn.col("result")).otherwise(beside)


def _output(kind: DataType, json: Column) -> Column:
    """Parse the answer's JSON; what does not fit its type is NULL. Wrapped where Spark reads no bare value."""
    if isinstance(kind, StructType):
        return fn.from_json(json, kind)
    wrapped = fn.concat(fn.lit(f'{{"{_VALUE}":'), json, fn.lit("}"))
    return fn.from_json(wrapped, StructType([StructField(_VALUE, kind)]))[_VALUE]
