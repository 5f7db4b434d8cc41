"""The backfill reads a source to the letter, and as the producer does: else ids would not meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from backfill import reading
from backfill.settings import read_job
from producer import source as producer_source
from producer.settings import read_job as producer_read_job

pytestmark = pytest.mark.spark

IDS = ["000123", "123", "21602730330000060100100000358582", "1e5", "true"]
BOM = b"\xef\xbb\xbf"

Case = tuple[str, bytes, dict[str, Any], list[tuple[str | None, str | None]]]
CASES: dict[str, Case] = {
    "digits": ("csv", "\n".join(["id,text", *(f"{id_},x" for id_ in IDS)]).encode(), {}, [(id_, "x") for id_ in IDS]),
    "line breaks in quotes": (
        "csv",
        b'id,text\r\n7,"first line\r\nsecond, ""quoted"" line"\r\n8,"unix\nline"\r\n',
        {},
        [("7", 'first line\r\nsecond, "quoted" line'), ("8", "unix\nline")],
    ),
    "byte-order mark": ("csv", BOM + "id,text\n1,é 🎉\n".encode(), {}, [("1", "é 🎉")]),
    "windows-1252": ("csv", b"id,text\n1,it\x92s\n", {"encoding": "windows-1252"}, [("1", "it’s")]),
    "separator": ("csv", b"id;text\n1;a,b\n", {"options": {"sep": ";"}}, [("1", "a,b")]),
    "json lines": (
        "jsonl",
        BOM + '{"id": 21602730330000060100100000358582, "text": "é\\n"}\r\n{"id": 1e5, "text": null}\n'.encode(),
        {},
        [("21602730330000060100100000358582", "é\n"), ("1e5", None)],
    ),
    "json": (
        "json",
        b'[{"id": "000123", "text": 0.10},\n {"id": true, "text": false}]',
        {},
        [("000123", "0.10"), ("true", "false")],
    ),
    "utf-16 lines": (
        "jsonl",
        '{"id": "é", "text": "x"}\n'.encode("utf-16-le"),
        {"encoding": "UTF-16LE"},
        [("é", "x")],
    ),
}


def job_file(folder: Path, kind: str, content: bytes, source: dict[str, Any]) -> Path:
    (folder / "rows").mkdir()
    (folder / "rows" / "part").write_bytes(content)
    job = {
        "job": "reviews",
        "source": {"format": kind, "path": "rows/part", **source},
        "id": "id",
        "prompt": {"template": "{text}"},
        "target": {"format": "parquet", "path": "labelled"},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return folder / "job.yaml"


@pytest.mark.parametrize("name", CASES)
def test_both_jobs_read_the_same_rows_to_the_letter(spark: SparkSession, tmp_path: Path, name: str) -> None:
    kind, content, source, expected = CASES[name]
    path = job_file(tmp_path, kind, content, source)

    ours = reading.read(spark, read_job(path))
    theirs = producer_source.read(spark, producer_read_job(path), None).rows

    assert [tuple(row) for row in ours.select("id", "text").collect()] == expected
    assert [tuple(row) for row in theirs.select("id", "text").collect()] == expected
    assert sorted(ours.columns) == ["id", "text"]


def test_bytes_of_another_encoding_harm_no_other_row(spark: SparkSession, tmp_path: Path) -> None:
    path = job_file(tmp_path, "csv", b"id,text\n1,it\x92s\n2,good\n", {})

    rows = reading.read(spark, read_job(path)).collect()
    assert [tuple(row) for row in rows] == [("1", "it\ufffds"), ("2", "good")]


def test_folders_of_a_csv_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = job_file(tmp_path, "csv", b"", {"path": "days"})
    for day in ("é", "2"):
        (tmp_path / "days" / f"day={day}").mkdir(parents=True)
        (tmp_path / "days" / f"day={day}" / "part.csv").write_bytes("id,text\n1,é\n".encode())

    rows = reading.read(spark, read_job(path)).collect()
    assert sorted(tuple(row) for row in rows) == [("1", "é", "2"), ("1", "é", "é")]


def test_a_table_of_the_catalog_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([("1", "x")], "id string, text string").createOrReplaceTempView("backfill_reading")
    path = job_file(tmp_path, "table", b"", {})
    job = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(job | {"source": {"format": "table", "table": "backfill_reading"}}))

    assert reading.read(spark, read_job(path)).count() == 1
