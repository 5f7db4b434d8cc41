"""Files without a JVM: what Spark Connect leaves to its client."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill.arrow_files import ArrowFiles
from backfill.errors import WrongJobError


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_files_are_written_found_and_listed_however_their_folder_is_named(tmp_path: Path, prefix: str) -> None:
    root = f"{prefix}{tmp_path}/a b%20é"
    files = ArrowFiles(root)
    assert not files.exists(root)
    assert list(files.listed(root)) == []
    files.write(f"{root}/day=1%2F2/_SUCCESS", "x")
    files.write(f"{root}/part", "12345")

    assert files.exists(root)
    assert [(name, size) for name, size, _ in files.listed(root)] == [("day=1%2F2/_SUCCESS", 1), ("part", 5)]
    assert [(name, size) for name, size, _ in files.listed(f"{root}/part")] == [("part", 5)]
    files.delete(f"{root}/part")
    files.delete(f"{root}/part")
    assert [name for name, *_ in files.listed(root)] == ["day=1%2F2/_SUCCESS"]


def test_a_file_system_that_this_machine_does_not_reach_is_named_without_its_key() -> None:
    with pytest.raises(
        WrongJobError, match=r"nowhere://bucket/x: under Spark Connect this machine must reach it too"
    ):
        ArrowFiles("nowhere://key:secret@bucket/x")
