"""How a source is read is said once, in `schemas.sources`, for both Spark jobs."""

from __future__ import annotations

import pytest

from schemas import sources
from schemas.job import Source

CSV = Source(format="csv", path="a.csv", options={"sep": ";", "ignoreTrailingWhiteSpace": True})


def test_csv_is_text_with_quoted_line_breaks_and_every_byte_kept() -> None:
    options = sources.csv_options(CSV, "id;text\r")

    assert (options["inferSchema"], options["multiLine"], options["escape"]) == ("false", "true", '"')
    assert (options["encoding"], options["lineSep"]) == ("ISO-8859-1", "\r\n")
    assert (options["sep"], options["ignoreTrailingWhiteSpace"]) == (";", "true")


@pytest.mark.parametrize(
    ("first", "line_end"), [("id\r", "\r\n"), ("id\r\0", "\r\n"), ("id", "\n"), ("", "\n"), (None, "\n")]
)
def test_the_first_line_tells_how_lines_end(first: str | None, line_end: str) -> None:
    assert sources.csv_options(CSV, first)["lineSep"] == line_end


def test_jsonl_in_another_encoding_names_its_line_break() -> None:
    utf16 = sources.json_options(Source(format="jsonl", path="a.jsonl", encoding="UTF-16LE"))

    assert (utf16["primitivesAsString"], utf16["multiLine"]) == ("true", "false")
    assert (utf16["encoding"], utf16["lineSep"]) == ("UTF-16LE", "\n")
    assert "encoding" not in sources.json_options(Source(format="jsonl", path="a.jsonl"))
    assert sources.json_options(Source(format="json", path="a.json", encoding="utf_8"))["multiLine"] == "true"


def test_fields_that_a_format_cannot_honour_are_named_all_at_once() -> None:
    csv = Source(format="csv", path="a.csv", table="t", options={"INFERSCHEMA": True, "charset": "x", "sep": ","})
    table = Source(format="table", table="t", path="p", encoding="latin1")

    assert [line.partition(":")[0] for line in sources.problems(csv)] == [
        "source.table",
        "source.options.INFERSCHEMA",
        "source.options.charset",
    ]
    assert [line.partition(":")[0] for line in sources.problems(table)] == ["source.path", "source.encoding"]
    assert list(sources.problems(CSV)) == []


def test_a_header_that_was_read_as_bytes_gets_its_name_back() -> None:
    read_as_bytes = "\ufeffidé".encode().decode("ISO-8859-1")

    assert sources.header_name(read_as_bytes, None) == "idé"
    assert sources.header_name("\ufeffid", "UTF-16") == "id"


def test_folders_are_columns() -> None:
    assert sources.folder_columns("file:/lake/day=2026-01-01/lang%3D=zh/part-0.csv") == {"day", "lang="}


@pytest.mark.parametrize("type_name", ["string", "int", "bigint", "decimal(38,0)", "varchar(20)"])
def test_types_with_one_text_form_are_ids(type_name: str) -> None:
    assert sources.id_type_problem(type_name) is None


@pytest.mark.parametrize("type_name", ["double", "decimal(10,2)", "timestamp", "boolean", "binary", "struct<a:int>"])
def test_other_types_are_no_ids(type_name: str) -> None:
    assert type_name in (sources.id_type_problem(type_name) or "")
