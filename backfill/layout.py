"""What a warehouse table looks like from outside: its columns, its folders, and whether they are the wanted ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pyspark.sql.types import StructField

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


def is_hidden(file: str) -> bool:
    """Tell whether readers of a table pass over a file: any part of its path begins with `_` or `.`."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in file.split("/"))


def folder_values(file: str) -> dict[str, str | None]:
    """Read the partition values out of a file's path as Spark wrote it: `day=2026-01-01/lang=zh/part-0.parquet`."""
    pairs = [part.partition("=") for part in file.split("/")[:-1]]
    return {
        _unescaped(name): None if value == NULL_FOLDER else _unescaped(value) for name, found, value in pairs if found
    }


def drift(found: Iterable[StructField], wanted: Iterable[StructField]) -> list[str]:
    """Say how the columns of a table differ from the wanted ones, order and nullability aside."""
    has = {field.name: field.dataType.simpleString() for field in found}
    wants = {field.name: field.dataType.simpleString() for field in wanted}
    missing = [f"has no column {name} ({wants[name]})" for name in wants if name not in has]
    extra = [f"has a column {name}, which the source no longer has" for name in has if name not in wants]
    other = [
        f"has column {name} as {has[name]}, now it is {wants[name]}"
        for name in wants
        if name in has and has[name] != wants[name]
    ]
    return [*missing, *extra, *other]


def partition_drift(found: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Say how the partition columns of a table differ from the wanted ones."""
    if list(found) == list(wanted):
        return []
    return [f"is partitioned by [{', '.join(found)}], the job file says [{', '.join(wanted)}]"]


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
