"""Files without a JVM: what Spark Connect leaves to its client."""

from __future__ import annotations

from pathlib import Path

import pytest

from producer.arrow_files import ArrowFiles
from producer.errors import WrongJobError


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_folder_is_written_listed_and_deleted_however_it_is_named(tmp_path: Path, prefix: str) -> None:
    root = f"{prefix}{tmp_path}/a b%20é"
    files = ArrowFiles(root)
    files.write(f"{root}/day=1%2F2/_SUCCESS", "x")
    files.write(f"{root}/part", "12345")

    assert (tmp_path / "a b%20é" / "part").read_text() == "12345"
    assert [(name, size) for name, size, _ in files.listed(root)] == [("day=1%2F2/_SUCCESS", 1), ("part", 5)]
    files.move(root, f"{root}-moved/there")
    assert list(files.listed(root)) == []
    files.move(f"{root}-moved/there", root)
    files.delete(f"{root}-moved")
    files.delete(f"{root}/part")
    assert [name for name, *_ in files.listed(root)] == ["day=1%2F2/_SUCCESS"]
    files.delete(root)
    files.delete(root)
    assert list(files.listed(root)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_this_machine_does_not_reach_is_named() -> None:
    with pytest.raises(
        WrongJobError, match=r"nowhere://bucket/x: under Spark Connect this machine must reach it too"
    ):
        ArrowFiles("nowhere://key:secret@bucket/x")
