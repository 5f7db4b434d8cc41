"""How a source is read: the one description that the producer and the backfill share, so that ids agree.

Spark replaces bytes that are no UTF-8 by U+FFFD and rewrites line ends inside quotes, both in silence. So CSV in
UTF-8 is read as ISO-8859-1, which keeps every byte, and turned back afterwards; the line end is told, not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from schemas import jdbc
from schemas.job import Source

CORRUPT_COLUMN = "_corrupt_record"
BYTES_ENCODING = "ISO-8859-1"
_BOM = "\ufeff"
# Spark's names of types whose text form is one and the same everywhere.
_EXACT_IDS = re.compile(r"string|tinyint|smallint|int|bigint|(?:char|varchar)\(\d+\)|decimal\(\d+,0\)")
_TEXT_FILES = frozenset({"csv", "json", "jsonl"})
_BY_PATH = frozenset({"parquet", "csv", "json", "jsonl", "delta"})
_READ_BY = {"jdbc": "options.dbtable or options.query"}
# Options that exact text rests on: every column as text, no row dropped or nulled in silence.
_SETTLED = {
    "csv": """charset columnnameofcorruptrecord columnpruning encoding enforceschema header inferschema linesep mode
        multiline preferdate schema singlevariantcolumn""".split(),
    "json": """charset columnnameofcorruptrecord encoding inferschema mode multiline prefersdecimal
        primitivesasstring singlevariantcolumn""".split(),
}
# What gives a row another value in each run, or after the table is cut into other tasks.
_UNSTABLE = re.compile(r"\b(uuid|monotonically_increasing_id|spark_partition_id)\s*\(", re.IGNORECASE)
_SETTLED["jsonl"] = _SETTLED["json"]


def problems(source: Source) -> Iterator[str]:
    """Name every field of a source that says something its format cannot honour, with its path in the job file."""
    by_path = source.format in _BY_PATH
    by = _READ_BY.get(source.format, "its path" if by_path else "its name")
    strangers = {
        "path": source.path and not by_path,
        "table": source.table and (by_path or source.format == "jdbc"),
        "query": source.query and source.format != "table",
    }
    yield from (
        f"source.{name}: {source.format} is read by {by}; leave it out" for name, odd in strangers.items() if odd
    )
    if source.format == "jdbc":
        yield from jdbc.problems(source)
    if source.query and (found := _UNSTABLE.search(source.query)):
        yield f"source.query: {found[1]}() gives others in each run, so no row would know its answer again"
    if source.query and source.options:
        yield "source.options: say nothing to a query; leave them out"
    if source.encoding and source.format not in _TEXT_FILES:
        yield f"source.encoding: {source.format} needs none; leave it out"
    for option in source.options:
        if option.lower() in _SETTLED.get(source.format, ()):
            hint = "use source.encoding" if option.lower() in {"encoding", "charset"} else "leave it out"
            yield f"source.options.{option}: is settled, so that text is read to the letter; {hint}"


def is_utf8(encoding: str | None) -> bool:
    """Tell whether this is UTF-8, by any of its names; None is."""
    return encoding is None or encoding.lower().replace("_", "-") in {"utf-8", "utf8", "utf-8-sig"}


def csv_options(source: Source, first_line: str | None) -> dict[str, str]:
    """Options of Spark's CSV reader; `first_line` is the file's text up to its first line feed.

    Every column is text. With UTF-8 each must be turned back: its ISO-8859-1 bytes are the UTF-8 text.
    """
    return {
        "escape": '"',
        **given_options(source),
        "header": "true",
        "inferSchema": "false",
        "multiLine": "true",
        "enforceSchema": "false",
        "columnPruning": "false",
        "mode": "PERMISSIVE",
        "encoding": BYTES_ENCODING if is_utf8(source.encoding) else source.encoding or "",
        "lineSep": _line_end(first_line),
    }


def json_options(source: Source) -> dict[str, str]:
    """Options of Spark's JSON reader: numbers and booleans stay the text they are in the file, `1e5` and `0.10`."""
    options = given_options(source) | {
        "primitivesAsString": "true",
        "multiLine": str(source.format == "json").lower(),
        "mode": "PERMISSIVE",
    }
    if not is_utf8(source.encoding):
        # Spark finds lines by itself in UTF-8 only.
        options |= {"encoding": source.encoding or "", "lineSep": "\n"}
    return options


def given_options(source: Source) -> dict[str, str]:
    """The job file's own options, as the text that Spark takes."""
    return {name: str(v).lower() if isinstance(v, bool) else str(v) for name, v in source.options.items()}


def selection(query: str) -> str:
    """Wrap a job file's query, so that it can read and nothing else: a command is no part of a SELECT."""
    return "\n".join(("SELECT * FROM (", query.rstrip().rstrip(";"), ")"))


def header_name(name: str, encoding: str | None) -> str:
    """The true name of a CSV column: turned back into UTF-8 where it was read as bytes, without a byte-order mark."""
    if is_utf8(encoding) and not name.isascii():
        name = name.encode(BYTES_ENCODING, "replace").decode("utf-8", "replace")
    return name.removeprefix(_BOM)


def folder_columns(file: str) -> set[str]:
    """Name the columns that are folders of a file (`day=...`): their text comes from the path, not from the file."""
    return {unquote(part.partition("=")[0]) for part in file.split("/")[:-1] if "=" in part}


def id_type_problem(type_name: str) -> str | None:
    """Say why a column of this Spark type (its `simpleString`) cannot be the id, or None.

    An id becomes text by `CAST(id AS STRING)`, which must give the same text in every run: text and whole numbers
    do; floats (`1.0E10`), times (the zone decides), booleans, bytes and nested values do not.
    """
    if _EXACT_IDS.fullmatch(type_name):
        return None
    return f"is {type_name}; ids are text or whole numbers: cast it first"


def _line_end(first_line: str | None) -> str:
    # In UTF-16 the other half of a line feed or carriage return is a zero byte.
    return "\r\n" if first_line and first_line.rstrip("\0").endswith("\r") else "\n"
