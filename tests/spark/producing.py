"""What the producer's tests share: job files in a folder, and rows judged without Kafka or Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import DataFrame, Row, SparkSession

from producer import columns as names
from producer.arguments import Arguments
from producer.judging import judge
from producer.run import Run
from producer.settings import ProducerSettings, read_job, read_settings

BASE: dict[str, Any] = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "rows"},
    "id": "id",
    "prompt": {"template": "{text}"},
    "target": {"format": "parquet", "path": "labelled"},
}


def write_job(folder: Path, **changes: Any) -> Path:
    """Write a job file: the smallest one, with some parts changed."""
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(BASE | changes, allow_unicode=True), encoding="utf-8")
    return path


def make_run(job_file: Path, environ: Mapping[str, str] | None = None, **arguments: Any) -> Run:
    """Start a job file as `spark-submit` would, without its session."""
    settings: ProducerSettings = read_settings(environ or {})
    return Run(read_job(job_file), settings, Arguments(job_file, **arguments))


def write_rows(spark: SparkSession, folder: Path, rows: Sequence[Sequence[Any]], schema: str) -> None:
    """Write the source table of the smallest job."""
    spark.createDataFrame(list(map(tuple, rows)), schema).write.mode("overwrite").parquet(str(folder / "rows"))


def judged(spark: SparkSession, job_file: Path, **arguments: Any) -> list[Row]:
    """Judge all rows of a job."""
    with judge(spark, make_run(job_file, **arguments)) as found:
        return found.rows.collect()


def judged_texts(spark: SparkSession, folder: Path, rows: Sequence[Sequence[Any]], **changes: Any) -> list[Row]:
    """Judge rows of id and text."""
    write_rows(spark, folder, rows, "id string, text string")
    return judged(spark, write_job(folder, **changes))


def reasons(rows: Sequence[Row]) -> dict[Any, str | None]:
    """Tell the reason of each id, `None` for a row that passes and `repeated` for one that another stands for."""
    return {row[names.ID]: "repeated" if row[names.REPEATED] else reason(row) for row in rows}


def reason(row: Row) -> str | None:
    """Tell why a row is rejected."""
    verdict = row[names.VERDICT]
    return verdict["reason"] if verdict else None


def body(row: Row) -> dict[str, Any]:
    """Read the message of a row."""
    content = json.loads(row[names.VALUE])
    assert isinstance(content, dict)
    return content


def texts_frame(spark: SparkSession, texts: Sequence[str | None]) -> DataFrame:
    """Make a frame of one column, `text`, in one partition, so that its order stays."""
    return spark.createDataFrame([(text,) for text in texts], "text string").coalesce(1)
