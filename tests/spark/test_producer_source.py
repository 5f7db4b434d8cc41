"""Files are read to the letter, and what cannot be read is rejected and never lost."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from producer import columns as names
from producer.errors import RunFailedError, WrongJobError
from schemas.settings import SettingsError
from tests.spark.producing import body, judged, reason, reasons, write_job, write_rows

pytestmark = pytest.mark.spark

IDS = ["000123", "123", "21602730330000060100100000358582", "1e5", "true"]


def read_csv(spark: SparkSession, folder: Path, content: bytes, **source: Any) -> list[Row]:
    (folder / "rows.csv").write_bytes(content)
    return judged(spark, write_job(folder, source={"format": "csv", "path": "rows.csv", **source}))


def read_json(spark: SparkSession, folder: Path, content: bytes, **source: Any) -> list[Row]:
    (folder / "rows.jsonl").write_bytes(content)
    return judged(spark, write_job(folder, source={"format": "jsonl", "path": "rows.jsonl", **source}))


def prompts(rows: list[Row]) -> dict[str, str]:
    return {row[names.ID]: body(row)["prompt"] for row in rows if reason(row) is None}


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_quoted_text_is_byte_exact(spark: SparkSession, tmp_path: Path, line_end: str, bom: bytes) -> None:
    texts = {
        "7": 'first line\r\nsecond, "quoted" line',
        "8": "unix\nline, naïve 🎉",
        "9": " spaces, kept ",
        "10": "back\\slash",
        "11": '"',
    }
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator=line_end)
    table.writerows([("id", "text"), *texts.items()])

    found = read_csv(spark, tmp_path, bom + buffer.getvalue().encode())

    assert len(found) == len(list(csv.reader(io.StringIO(buffer.getvalue(), newline="")))) - 1
    assert prompts(found) == texts


def test_csv_ids_keep_every_character(spark: SparkSession, tmp_path: Path) -> None:
    content = "id,text\n" + "".join(f"{id_},x\n" for id_ in IDS)
    assert sorted(prompts(read_csv(spark, tmp_path, content.encode()))) == sorted(IDS)


def test_rows_with_the_wrong_number_of_fields_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    found = read_csv(spark, tmp_path, b"id,text\n1\n2,a,b\n3,good\n", where="text != 'nothing'")

    assert sorted(filter(None, map(reason, found))) == ["unreadable_row"] * 2
    assert prompts(found) == {"3": "good"}
    assert sorted(row["_corrupt_record"] for row in found if reason(row)) == ["1", "2,a,b"]


def test_bytes_that_are_not_utf8_are_rejected_until_the_encoding_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    content = b"id,text\n1,it\x92s\n2,caf\xc3\xa9\n3,\xef\xbf\xbd kept\n\xff,bad id\n"

    found = read_csv(spark, tmp_path, content)
    assert prompts(found) == {"2": "café", "3": "\ufffd kept"}
    assert sorted(str(reason(row)) for row in found) == ["None", "None", "invalid_id", "invalid_text"]

    assert prompts(read_csv(spark, tmp_path, content, encoding="windows-1252"))["1"] == "it\u2019s"


def test_a_wrongly_named_encoding_is_told(spark: SparkSession, tmp_path: Path) -> None:
    found = read_csv(spark, tmp_path, "id,text\n1,中文\n2,caf\n".encode("gbk") + b"3,\xff\xff\n", encoding="GBK")

    assert prompts(found) == {"1": "中文", "2": "caf"}
    assert reasons(found)["3"] == "invalid_text"


def test_utf16_files_of_spreadsheets_are_read(spark: SparkSession, tmp_path: Path) -> None:
    content = 'id\ttext\r\n1\t"a\nb 🎉"\r\n'.encode("utf-16")
    assert prompts(read_csv(spark, tmp_path, content, encoding="UTF-16", options={"sep": "\t"})) == {"1": "a\nb 🎉"}


def test_a_header_beyond_ascii_has_its_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,größe\n1,zwölf\n", encoding="utf-8-sig")
    job = write_job(tmp_path, source={"format": "csv", "path": "rows.csv"}, prompt={"template": "{größe}"})

    assert prompts(judged(spark, job)) == {"1": "zwölf"}


def test_folders_of_a_partitioned_csv_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("001", "ä"):
        (tmp_path / f"rows/day={day}").mkdir(parents=True)
        (tmp_path / f"rows/day={day}/a.csv").write_text(f"id,text\n{day}-1,é\n", encoding="utf-8")
    job = write_job(tmp_path, source={"format": "csv", "path": "rows"}, prompt={"template": "{day} {text}"})

    assert prompts(judged(spark, job)) == {"001-1": "001 é", "ä-1": "ä é"}


def test_csv_files_of_different_headers_are_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for name, content in (("a", b"id,text\n1,x\n"), ("b", b"text,id\nx,2\n")):
        (tmp_path / f"rows/{name}.csv").write_bytes(content)
    with pytest.raises(RunFailedError, match="CSV files differ in their headers or line ends"):
        judged(spark, write_job(tmp_path, source={"format": "csv", "path": "rows"}))


def test_json_keeps_numbers_as_they_are_written(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '{"id": 1e5, "text": 1.10}',
        '{"id": 21602730330000060100100000358582, "text": true}',
        '{"id": "000123", "text": "caf\u00e9"}',
        '{"id": true, "text": "x"}',
        '{"id": 123, "text": null}',
        "{broken",
    ]
    found = read_json(spark, tmp_path, "\n".join(lines).encode(), where="coalesce(text, '') != 'nothing'")

    assert prompts(found) == {
        "1e5": "1.10",
        "21602730330000060100100000358582": "true",
        "000123": "café",
        "true": "x",
    }
    assert sorted(filter(None, map(reason, found))) == ["null_column", "unreadable_row"]


def test_json_lines_with_a_bom_or_bytes_that_are_no_utf8(spark: SparkSession, tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"id": "1", "text": "a"}\n{"id": "2", "text": "caf\xe9"}\n{"id": "3", "text": "c"}\n'
    found = read_json(spark, tmp_path, content)
    assert prompts(found) == {"1": "a", "3": "c"}
    assert [reason(row) for row in found if reason(row)] == ["unreadable_row"]

    latin = b'{"id": "2", "text": "caf\xe9"}\n'
    assert prompts(read_json(spark, tmp_path, latin, encoding="ISO-8859-1")) == {"2": "café"}


def test_a_json_document_may_span_lines(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('[\n {"id": "1",\n "text": "a"},\n {"id": "2", "text": "b"}\n]')
    job = write_job(tmp_path, source={"format": "json", "path": "rows.json"})

    assert prompts(judged(spark, job)) == {"1": "a", "2": "b"}


def test_where_limit_and_tables(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(number, f"text {number}", "zh" if number % 2 else "en") for number in range(10)]
    write_rows(spark, tmp_path, rows, "id long, text string, lang string")
    spark.read.parquet(str(tmp_path / "rows")).createOrReplaceTempView("producer_source_rows")
    source = {"format": "table", "table": "producer_source_rows", "where": "lang = 'zh' -- only these"}

    assert sorted(prompts(judged(spark, write_job(tmp_path, source=source)))) == ["1", "3", "5", "7", "9"]
    assert len(judged(spark, write_job(tmp_path, source=source), limit=2)) == 2


@pytest.mark.parametrize("kind", ["double", "boolean", "date", "timestamp", "array<string>", "decimal(5,2)"])
def test_ids_of_inexact_types_are_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frame = spark.sql(f"SELECT CAST(NULL AS {kind}) AS id, 'x' AS text")
    frame.write.parquet(str(tmp_path / "rows"))

    with pytest.raises(SettingsError, match=r"id: column id is .*cast it first"):
        judged(spark, write_job(tmp_path))


@pytest.mark.parametrize("kind", ["tinyint", "int", "long", "decimal(20,0)", "varchar(9)"])
def test_whole_numbers_and_text_are_ids(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    spark.sql(f"SELECT CAST('17' AS {kind}) AS id, 'x' AS text").write.parquet(str(tmp_path / "rows"))

    assert prompts(judged(spark, write_job(tmp_path))) == {"17": "x"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": "nr"}, "id: the source has no column nr; it has id, text"),
        ({"prompt": {"template": "{Text}"}}, "prompt.template: the source has no column Text; it has id, text"),
        ({"clean": {"columns": ["body"], "strip_html": True}}, "clean.columns: the source has no column body"),
    ],
)
def test_a_missing_column_is_named_with_those_that_are_there(
    spark: SparkSession, tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    write_rows(spark, tmp_path, [("1", "a")], "id string, text string")
    with pytest.raises(SettingsError) as raised:
        judged(spark, write_job(tmp_path, **changes))
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"source": {"format": "parquet", "path": "gone"}}, r"source.path: file:/.*/gone does not exist"),
        ({"source": {"format": "csv", "path": "gone.csv"}}, r"source.path: .*gone.csv does not exist"),
        ({"source": {"format": "jsonl", "path": "gone"}}, r"source.path: .*gone does not exist"),
        ({"source": {"format": "parquet", "path": "empty"}}, r"source.path: .*empty holds no parquet file"),
        ({"source": {"format": "table", "table": "no.such"}}, r"source.table: no.such does not exist"),
        ({"source": {"format": "parquet", "path": "rows", "where": "lang = ("}}, r"source.where: "),
        ({"source": {"format": "parquet", "path": "rows", "where": "x > 1"}}, r"source.where: .*`x`"),
        ({"source": {"format": "parquet", "path": "rows", "where": "text"}}, r"source.where: "),
        ({"source": {"format": "parquet", "path": "rows", "where": "count(*) > 1"}}, r"source.where: "),
        ({"routes": [{"when": "nope > 1", "model": "m"}]}, r"routes.0.when: .*`nope`"),
        ({"routes": [{"when": "text = 'a'", "model": "m"}, {"when": "text +", "model": "m"}]}, r"routes.1.when: "),
        ({"routes": [{"when": "sum(prompt_chars) > 1", "model": "m"}]}, r"routes.0.when: "),
        ({"routes": [{"when": "prompt_chars", "model": "m"}]}, r"routes.0.when: "),
    ],
)
def test_what_the_source_lacks_is_named(
    spark: SparkSession, tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    write_rows(spark, tmp_path, [("1", "a")], "id string, text string")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WrongJobError, match=problem) as raised:
        judged(spark, write_job(tmp_path, **changes))
    assert "\n" not in str(raised.value)


def test_columns_that_differ_in_case_alone_are_told(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["1"], "text": ["a"], "TEXT": ["b"]}), tmp_path / "rows.parquet")
    with pytest.raises(WrongJobError, match=r"job file: source: .*text"):
        judged(spark, write_job(tmp_path, source={"format": "parquet", "path": "rows.parquet"}))


def test_columns_that_are_no_text_and_names_that_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT 'a' AS id, array(1) AS text").write.parquet(str(tmp_path / "rows"))
    with pytest.raises(SettingsError, match=r"prompt.template: column text is array<int>; make it text first"):
        judged(spark, write_job(tmp_path))

    write_rows(
        spark, tmp_path, [("1", "a", "b", 1)], "id string, text string, reject_reason string, prompt_chars int"
    )
    with pytest.raises(SettingsError, match="column reject_reason has a name that the producer adds"):
        judged(spark, write_job(tmp_path))
    with pytest.raises(SettingsError, match="column prompt_chars"):
        judged(spark, write_job(tmp_path, routes=[{"model": "m"}]))


def test_column_names_may_hold_anything(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("1", "a")], "`review.id` string, `te``xt!` string")
    frame.write.parquet(str(tmp_path / "rows"))
    job = write_job(tmp_path, id="review.id", prompt={"template": "{te`xt!}"})

    assert prompts(judged(spark, job)) == {"1": "a"}
