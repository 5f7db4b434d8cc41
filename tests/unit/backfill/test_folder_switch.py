"""Two folders change names in one step, and files are shared between them without a copy."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from backfill.folders import exchange, link


def test_the_exchange_leaves_no_moment_without_the_folder(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    done = threading.Event()
    absent = 0

    def watch() -> None:
        nonlocal absent
        while not done.is_set():
            absent += not os.path.exists(old / "file")

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(2001):
        assert exchange(str(new), str(old))
    done.set()
    watcher.join()

    assert absent == 0
    assert ((old / "file").read_text(), (new / "file").read_text()) == ("new", "old")


def test_an_exchange_with_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        exchange(str(tmp_path / "one"), str(tmp_path / "other"))


def test_linked_files_are_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "day=1").mkdir(parents=True)
    (tmp_path / "a" / "day=1" / "f").write_text("text")

    link(["day=1/f"], str(tmp_path / "a"), str(tmp_path / "b"))

    assert (tmp_path / "b/day=1/f").stat().st_ino == (tmp_path / "a/day=1/f").stat().st_ino
