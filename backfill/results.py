"""The columns of a finished result: how Postgres selects them, how they travel as CSV, what Spark sees.

CSV parsed by Arrow costs less CPU a row than COPY in binary or ADBC (bench/backfill.py), and needs no jar.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import csv
from pyspark.sql.types import (
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_STRING, _LONG, _INT = StringType(), LongType(), IntegerType()
_COST, _TIME = DecimalType(18, 8), TimestampType()
_TIME_FITS = "completed_at > '0001-01-02' AND completed_at < '9999-12-31'"

# Name, the SQL that selects it, its type. What the type cannot hold is NULL rather than the end of the run.
_FIELDS: tuple[tuple[str, str, DataType], ...] = (
    ("id", "id", _STRING),
    ("run", "run", _STRING),
    ("status", "status", _STRING),
    ("reason", "reason", _STRING),
    ("result", "result", _STRING),
    ("result_json", "result_json::text", _STRING),
    ("finish_reason", "finish_reason", _STRING),
    ("prompt_tokens", "prompt_tokens", _LONG),
    ("completion_tokens", "completion_tokens", _LONG),
    ("retry_count", "retry_count", _INT),
    ("model", "model", _STRING),
    ("endpoint", "endpoint", _STRING),
    ("cost_usd", "CASE WHEN abs(cost_usd) < 1e9 THEN round(cost_usd, 8) END", _COST),
    # As microseconds since 1970, so that no zone of a server, a JVM or a session can shift it.
    (
        "completed_at",
        f"CASE WHEN {_TIME_FITS} THEN (extract(epoch FROM completed_at) * 1000000)::bigint END",
        _TIME,
    ),
)
_ARROW: dict[DataType, pa.DataType] = {
    _STRING: pa.string(),
    _LONG: pa.int64(),
    _INT: pa.int32(),
    _COST: pa.decimal128(18, 8),
    _TIME: pa.timestamp("us", "UTC"),
}

RESULT_SCHEMA = StructType([StructField(name, kind) for name, _, kind in _FIELDS])
_ARROW_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, _, kind in _FIELDS])
_ON_THE_WIRE = pa.schema([(name, pa.int64() if kind is _TIME else _ARROW[kind]) for name, _, kind in _FIELDS])


def selected(with_json: bool) -> str:
    """The columns as Postgres is to select them; without the parsed JSON, the longest one, where nobody reads it."""
    return ", ".join("NULL" if name == "result_json" and not with_json else sql for name, sql, _ in _FIELDS)


def parse(piece: bytes) -> pa.RecordBatch:
    """Turn whole rows of Postgres's CSV, at least one, into one Arrow batch of `RESULT_SCHEMA`.

    NULL is an empty field without quotes, the empty text one with.
    """
    table = csv.read_csv(
        pa.BufferReader(piece),
        csv.ReadOptions(column_names=_ON_THE_WIRE.names, block_size=len(piece) + 1, use_threads=False),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types=_ON_THE_WIRE, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    return table.cast(_ARROW_SCHEMA).combine_chunks().to_batches()[0]
