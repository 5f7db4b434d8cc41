"""What a job file may say and the backfill cannot honour is refused by name, with all problems at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfill.settings import JobFile, read_job, read_settings
from schemas.settings import SettingsError

BASE: dict[str, Any] = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "data/reviews"},
    "id": "review_id",
    "prompt": {"template": "Review: {text}"},
    "target": {"format": "parquet", "path": "labelled"},
}


def written(folder: Path, changes: dict[str, Any] | None = None) -> Path:
    path = folder / "reviews.yaml"
    path.write_text(yaml.safe_dump(BASE | (changes or {})))
    return path


def read(folder: Path, changes: dict[str, Any] | None = None) -> JobFile:
    return read_job(written(folder, changes))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"target": {"format": "iceberg", "table": "lake.db.x; DROP TABLE y"}}, "target.table"),
        ({"target": {"format": "iceberg", "table": "lake.db.x", "path": "labelled"}}, "target.path"),
        (
            {"source": {"format": "table", "table": "db.x"}, "target": {"format": "iceberg", "table": "db.x"}},
            "target.table",
        ),
        ({"target": {"format": "parquet", "path": "labelled", "table": "lake.labelled"}}, "target.table"),
        ({"target": {"format": "delta", "path": "labelled", "partition_by": ["day", "DAY"]}}, "target.partition_by"),
        ({"target": {"format": "parquet", "path": "data"}}, "target.path"),
        ({"target": {"format": "parquet", "path": "data/reviews/labelled"}}, "target.path"),
        ({"target": {"format": "parquet", "path": "./data/x/../reviews/"}}, "target.path"),
        ({"source": {"format": "jdbc", "options": {"url": "x", "dbtable": "t"}}}, "source.options.url"),
        (
            {"source": {"format": "csv", "path": "a.csv", "options": {"inferSchema": True}}},
            "source.options.inferSchema",
        ),
        ({"output": {"json_schema": "missing.json"}}, "output.json_schema"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_named(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, changes)

    assert [line.partition(":")[0] for line in caught.value.problems] == [field]


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    changes = {"target": {"format": "parquet", "path": "data"}, "output": {"json_schema": "list.json"}}

    with pytest.raises(SettingsError) as caught:
        read(tmp_path, changes)
    assert len(caught.value.problems) == 2


def test_paths_start_at_the_folder_of_the_job_file(tmp_path: Path) -> None:
    file = read(tmp_path)

    assert file.source_path == f"file://{tmp_path}/data/reviews"
    assert file.target_path == f"file://{tmp_path}/labelled"
    assert file.target_name == f"{tmp_path}/labelled"


@pytest.mark.parametrize("spelling", ["{}/labelled", "file:{}/labelled/", "file://{}/x/../labelled", "./labelled"])
def test_one_target_has_one_name_however_it_is_written(tmp_path: Path, spelling: str) -> None:
    target = {"format": "parquet", "path": spelling.format(tmp_path)}

    assert read(tmp_path, {"target": target}).target_name == f"{tmp_path}/labelled"


def test_another_file_system_is_another_target(tmp_path: Path) -> None:
    target = {"format": "parquet", "path": "s3a://lake/labelled/"}

    assert read(tmp_path, {"target": target}).target_name == "s3a://lake/labelled"


def test_the_schema_of_the_answers_is_read_and_counts_in_the_version(tmp_path: Path) -> None:
    (tmp_path / "label.json").write_text(json.dumps({"type": "object"}), encoding="utf-8-sig")
    file = read(tmp_path, {"output": {"json_schema": "label.json"}})

    assert file.json_schema == {"type": "object"}
    assert file.prompt_version != read(tmp_path).prompt_version


def test_settings_say_all_problems_and_never_the_address() -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings({"DATABASE_URL": "mysql://u:secret@h/db", "LOG_LEVEL": "LOUD"})

    assert len(caught.value.problems) == 2
    assert "secret" not in str(caught.value)
