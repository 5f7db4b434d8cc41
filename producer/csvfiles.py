"""Read CSV files to the letter: every column text, quotes over several lines, no byte replaced in silence."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from producer.columns import CORRUPT, column
from schemas import sources
from schemas.job import Source


def read(spark: SparkSession, source: Source, path: str) -> DataFrame:
    """Open files with a header; a row with too few or too many fields has its text in `_corrupt_record`.

    All files must have the header and the line ends of the first one, else Spark ends the run.
    """
    first = spark.read.text(path, lineSep="\n").first()
    reader = spark.read.options(**sources.csv_options(source, first[0] if first else None))
    header = reader.csv(path)
    fields = [StructField(name, StringType()) for name in [*header.columns, CORRUPT]]
    rows = reader.schema(StructType(fields)).csv(path)
    folders = sources.folder_columns(next(iter(header.inputFiles()), ""))
    return rows.select(*(_decoded(name, source.encoding, folders) for name in rows.columns))


def _decoded(name: str, encoding: str | None, folders: set[str]) -> Column:
    """Turn text that was read as bytes back into UTF-8; bytes that are none make text that is not valid."""
    text = column(name)
    if sources.is_utf8(encoding) and name not in folders:
        text = fn.encode(text, sources.BYTES_ENCODING).cast("string")
    return text.alias(sources.header_name(name, encoding))
