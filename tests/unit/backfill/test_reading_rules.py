"""How a source is read is said once, in `schemas.sources`, for both Spark jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.job import Source
from schemas.settings import SettingsError
from schemas.sources import id_type_problem, reading, resolve

FOLDER = Path("/jobs/reviews")


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("data/reviews", "/jobs/reviews/data/reviews"),
        ("data/*.csv", "/jobs/reviews/data/*.csv"),
        ("/lake/reviews", "/lake/reviews"),
        ("s3a://bucket/reviews", "s3a://bucket/reviews"),
        ("file:/lake/reviews", "file:/lake/reviews"),
    ],
)
def test_a_relative_path_starts_at_the_job_file(path: str, absolute: str) -> None:
    assert resolve(path, FOLDER) == absolute


def test_csv_is_text_with_quoted_line_breaks() -> None:
    found = reading(Source(format="csv", path="a.csv", options={"sep": ";", "header": False}), FOLDER)

    assert found.format == "csv"
    assert found.path == "/jobs/reviews/a.csv"
    assert found.options["inferSchema"] == "false"
    assert (found.options["multiLine"], found.options["escape"], found.options["encoding"]) == ("true", '"', "UTF-8")
    assert (found.options["sep"], found.options["header"]) == (";", "false")


def test_jsonl_in_another_encoding_names_its_line_break() -> None:
    found = reading(Source(format="jsonl", path="a.jsonl", encoding="UTF-16LE"), FOLDER)

    assert found.format == "json"
    assert found.options == {
        "primitivesAsString": "true",
        "multiLine": "false",
        "encoding": "UTF-16LE",
        "lineSep": "\n",
    }


def test_a_table_is_read_by_name() -> None:
    found = reading(Source(format="table", table="lake.reviews"), FOLDER)

    assert (found.table, found.path, found.options) == ("lake.reviews", None, {})


def test_options_that_would_change_ids_are_refused_all_at_once() -> None:
    source = Source(format="csv", path="a.csv", options={"INFERSCHEMA": True, "sep": ","})
    with pytest.raises(SettingsError, match=r"source\.options\.INFERSCHEMA"):
        reading(source, FOLDER)

    source = Source(format="table", table="t", encoding="latin1", options={"x": 1})
    with pytest.raises(SettingsError) as caught:
        reading(source, FOLDER)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("type_name", ["string", "int", "bigint", "decimal(38,0)", "varchar(20)", "date"])
def test_types_with_one_text_form_are_ids(type_name: str) -> None:
    assert id_type_problem(type_name) is None


@pytest.mark.parametrize("type_name", ["double", "decimal(10,2)", "timestamp", "boolean", "binary", "struct<a:int>"])
def test_other_types_are_no_ids(type_name: str) -> None:
    assert type_name in (id_type_problem(type_name) or "")
