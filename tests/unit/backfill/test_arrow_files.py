"""Files without a JVM: what Spark Connect leaves to its client."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill.arrow_files import ArrowFiles
from backfill.errors import WrongJobError


def names(files: ArrowFiles, path: str) -> list[str]:
    return [name for name, _, _ in files.listed(path)]


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_folder_is_listed_moved_and_deleted_however_it_is_named(tmp_path: Path, prefix: str) -> None:
    root = f"{prefix}{tmp_path}/a b%20é"
    files = ArrowFiles(root)
    files.write(f"{root}/day=1%2F2/_SUCCESS", "x")
    files.write(f"{root}/part", "12345")

    assert files.local
    assert files.renames
    assert files.absolute(root) == f"{tmp_path}/a b%20é"
    assert [(name, size) for name, size, _ in files.listed(root)] == [("day=1%2F2/_SUCCESS", 1), ("part", 5)]
    files.move(root, f"{prefix}{tmp_path}/new/b")
    assert not files.exists(root)
    assert names(files, root) == []
    assert names(files, f"{prefix}{tmp_path}/new/b") == ["day=1%2F2/_SUCCESS", "part"]
    files.delete(f"{prefix}{tmp_path}/new/b/part")
    files.delete(f"{prefix}{tmp_path}/new")
    files.delete(f"{prefix}{tmp_path}/new")
    assert list(tmp_path.iterdir()) == []


def test_a_move_onto_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        ArrowFiles(str(tmp_path)).move(f"{tmp_path}/absent", f"{tmp_path}/other")


def test_a_file_system_that_this_machine_does_not_reach_is_named() -> None:
    with pytest.raises(
        WrongJobError, match=r"nowhere://bucket/x: under Spark Connect this machine must reach it too"
    ):
        ArrowFiles("nowhere://key:secret@bucket/x")


def test_an_object_store_renames_no_folders() -> None:
    files = ArrowFiles("gs://anonymous@bucket/some path")
    assert (files.local, files.renames) == (False, False)
