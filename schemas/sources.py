"""How a source is read: the one description that the producer and the backfill share, so that ids agree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from schemas.job import Source
from schemas.settings import SettingsError

CORRUPT_COLUMN = "_corrupt_record"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
# Spark's names of types whose text form is one and the same everywhere; `decimal(p,0)` is added below.
_EXACT_IDS = frozenset({"string", "tinyint", "smallint", "int", "bigint", "date"})
_SIZED_IDS = re.compile(r"(?:char|varchar)\(\d+\)|decimal\(\d+,0\)|string collate \S+", re.IGNORECASE)

# Nothing is guessed from the text: `000123` and `1e5` stay what they are, and a line break inside quotes is text.
_TEXT_ONLY = {
    "csv": {"header": "true", "inferSchema": "false", "multiLine": "true", "quote": '"', "escape": '"'},
    "json": {"primitivesAsString": "true", "multiLine": "true"},
    "jsonl": {"primitivesAsString": "true", "multiLine": "false"},
}
# What ids rest on; a job file may set any other option of the format.
_FIXED = {"csv": {"inferSchema"}, "json": {"primitivesAsString", "multiLine"}, "jsonl": {"primitivesAsString"}}


@dataclass(frozen=True, slots=True)
class Reading:
    """What to hand to Spark: `read.format(format).options(**options).load(path)`, or `read.table(table)`.

    `path` is None for a source that its options name (jdbc); `table` is None for all but tables.
    """

    format: str
    options: dict[str, str]
    path: str | None = None
    table: str | None = None


def reading(source: Source, folder: Path) -> Reading:
    """Describe how Spark reads a source of a job file that lies in `folder`.

    CSV and JSON are read as text only, quoted line breaks and all, in `source.encoding` (UTF-8 if absent).
    Raises `SettingsError` naming each option or field that may not be set for this format.
    """
    if problems := _problems(source):
        raise SettingsError("job file", problems)
    if source.format in {"table", "iceberg"}:
        return Reading(source.format, {}, table=source.table)
    options = _TEXT_ONLY.get(source.format, {}) | _encoding(source) | _given(source)
    spark_format = "json" if source.format == "jsonl" else source.format
    return Reading(spark_format, options, path=resolve(source.path, folder) if source.path else None)


def resolve(path: str, folder: Path) -> str:
    """Make a path of a job file absolute: relative ones start at the file's folder, those with a scheme stay."""
    if _SCHEME.match(path) or path.startswith("/"):
        return path
    return str(folder.resolve() / path)


def id_type_problem(type_name: str) -> str | None:
    """Say why a column of this Spark type (its `simpleString`) cannot be the id, or None.

    An id becomes text by `CAST(id AS STRING)`, which must give the same text in every run: so text, whole
    numbers and dates, but no floats (`1.0E10`), times (the zone decides), booleans, bytes or nested values.
    """
    if type_name in _EXACT_IDS or _SIZED_IDS.fullmatch(type_name):
        return None
    return f"is of type {type_name}: an id must be text, a whole number or a date, so add a text column to the source"


def _problems(source: Source) -> list[str]:
    fixed = {name.lower() for name in _FIXED.get(source.format, ())}
    problems = [
        f"source.options.{name}: may not be set for {source.format}, ids and prompts are read as exact text"
        for name in source.options
        if name.lower() in fixed
    ]
    if source.encoding and source.format not in {"csv", "json", "jsonl"}:
        problems.append(f"source.encoding: format {source.format} has no encoding to set")
    if source.options and source.format in {"table", "iceberg"}:
        problems.append(f"source.options: format {source.format} takes none")
    return problems


def _encoding(source: Source) -> dict[str, str]:
    if source.format not in _TEXT_ONLY:
        return {}
    if source.format == "jsonl" and source.encoding:
        # Spark finds lines by itself in UTF-8 only.
        return {"encoding": source.encoding, "lineSep": "\n"}
    return {"encoding": source.encoding or "UTF-8"} if source.format == "csv" or source.encoding else {}


def _given(source: Source) -> dict[str, str]:
    return {name: _text(value) for name, value in source.options.items()}


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
