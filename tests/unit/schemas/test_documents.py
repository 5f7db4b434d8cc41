"""Documents that people write: what is wrong is said with the file and the place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from schemas.documents import read_document
from schemas.job import Job
from schemas.settings import SettingsError


def problem(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        read_document(path, Job, yaml.safe_load)
    return str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert problem(tmp_path / "no.yaml") == f"{tmp_path / 'no.yaml'}: no such file"


def test_a_folder_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert "cannot be read" in problem(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in problem(binary)


@pytest.mark.parametrize(
    ("text", "place"),
    [("a: [1", "line 2, column 1"), ("job: a\n\tid: b", "line 2, column 1"), ("a: b: c", "line 1, column 5")],
)
def test_broken_yaml_is_told_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text + "\n")
    assert place in problem(path)


@pytest.mark.parametrize("text", ["", "[]", "just text", "7", "[" * 5000])
def test_what_is_no_mapping(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(text)
    assert str(path) in problem(path)


def test_a_byte_order_mark_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfjob: reviews\n")
    assert "job" not in {line.split(": ")[1] for line in problem(path).splitlines()}


def test_python_objects_in_yaml_are_not_made(tmp_path: Path) -> None:
    path = tmp_path / "evil.yaml"
    path.write_text("job: !!python/object/apply:os.getcwd []\n")
    assert "line 1" in problem(path)
