"""The columns of a finished result: how Postgres selects them, how they travel as CSV, what Spark sees.

CSV parsed by Arrow costs less CPU a row than COPY in binary or ADBC (bench/backfill.py), and needs no jar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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

from backfill.columns import HANDLE

_STRING, _LONG, _INT = StringType(), LongType(), IntegerType()
_COST, _TIME = DecimalType(18, 8), TimestampType()
_TIME_FITS = "completed_at > '0001-01-02' AND completed_at < '9999-12-31'"

# The parsed JSON of a result, empty where the result's text is that JSON: to write JSON out costs Postgres more than
# all else in a row. A worker parses an answer as it stands, unless it is in a fence or had to be mended.
BESIDE_TEXT = "json_beside_text"
_TEXT_IS_JSON = "result_json IS NOT NULL AND NOT sanitised AND left(result, 1) IN ('{', '[')"

# Name, the SQL that selects it, its type. What the type cannot hold is NULL rather than the end of the run.
_FIELDS: tuple[tuple[str, str, DataType], ...] = (
    ("id", "id", _STRING),
    ("run", "run", _STRING),
    ("status", "status", _STRING),
    ("reason", "reason", _STRING),
    ("result", "result", _STRING),
    ("result_json", "result_json::text", _STRING),
    (BESIDE_TEXT, f"CASE WHEN {_TEXT_IS_JSON} THEN '' ELSE result_json::text END", _STRING),
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
    ("fingerprint", "fingerprint", _STRING),
    # No id begins with white space.
    (HANDLE, "CASE WHEN former THEN ' ' || fingerprint || ' ' || id ELSE id END", _STRING),
)
_ARROW: dict[DataType, pa.DataType] = {
    _STRING: pa.string(),
    _LONG: pa.int64(),
    _INT: pa.int32(),
    _COST: pa.decimal128(18, 8),
    _TIME: pa.timestamp("us", "UTC"),
}

_SQL = {name: sql for name, sql, _ in _FIELDS}
_TYPES = {name: kind for name, _, kind in _FIELDS}

# What settles which rows a result is for, without the result itself.
KNOWN = ("id", "fingerprint", "status", "completed_at", HANDLE)
_ONLY_BY_REQUEST = frozenset({"fingerprint", HANDLE})


def columns(with_json: bool, by_request: bool = False, from_text: bool = False) -> tuple[str, ...]:
    """Name the columns of a whole result; the parsed JSON, the longest one, only where somebody reads it.

    `from_text`: only where the text does not say the same.
    """
    wanted = {BESIDE_TEXT if from_text else "result_json"} if with_json else set()
    left_out = {"result_json", BESIDE_TEXT} - wanted | (set() if by_request else _ONLY_BY_REQUEST)
    return tuple(name for name, _, _ in _FIELDS if name not in left_out)


def schema(names: Iterable[str]) -> StructType:
    """The columns as Spark sees them."""
    return StructType([StructField(name, _TYPES[name]) for name in names])


def selected(names: Iterable[str]) -> str:
    """The columns as Postgres is to select them, from results with a column `former`."""
    return ", ".join(_SQL[name] for name in names)


def parse(piece: bytes | bytearray, names: Sequence[str]) -> pa.RecordBatch:
    """Turn whole rows of Postgres's CSV, at least one, into one Arrow batch of these columns.

    NULL is an empty field without quotes, the empty text one with.
    """
    arrow = pa.schema([(name, _ARROW[_TYPES[name]]) for name in names])
    wire = pa.schema([(name, pa.int64() if _TYPES[name] is _TIME else arrow.field(name).type) for name in names])
    table = csv.read_csv(
        pa.BufferReader(piece),
        csv.ReadOptions(column_names=wire.names, block_size=len(piece) + 1, use_threads=False),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types=wire, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    return table.cast(arrow).combine_chunks().to_batches()[0]
