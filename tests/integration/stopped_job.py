"""`backfill/job.py` that stands still at a named point, for a test to kill it there; the product knows nothing of it.

`python stopped_job.py POINT MARK JOB_FILE`: whoever arrives at the point writes the file MARK and stays.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.datasource import InputPartition

from backfill import counts, cursor, job, parts, target_parquet
from backfill.folders import Folders
from backfill.target_parquet import ParquetTarget

# Longer than any test waits; whoever is not killed by then ends by itself.
_STAYS_S = 300
# The tasks that write stay at a row that is in every table of the tests.
SLOW_ID = "r-7"


def stand(mark: str) -> None:
    """Say that the point is reached, and stay."""
    Path(mark).touch()
    time.sleep(_STAYS_S)
    os._exit(9)


def instead(owner: Any, name: str, act: Callable[[Any], Any]) -> None:
    """Put something in the place of a name that another module uses, made from what is there."""
    setattr(owner, name, act(getattr(owner, name)))


def around(owner: Any, name: str, before: Callable[[], None] | None, after: Callable[[], None] | None) -> None:
    """Let something happen before and after each call of a function."""

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            if before:
                before()
            found = real(*given, **named)
            if after:
                after()
            return found

        return wrapped

    instead(owner, name, wrap)


def counted(times: int, act: Callable[[], None]) -> Callable[[], None]:
    """Act at the nth call only."""
    calls = iter(range(1, 1000))
    return lambda: act() if next(calls) == times else None


def in_a_reader(mark: str, stays: int | None) -> None:
    """Stay in the tasks that read results: in all before the first row, or in one while the other goes on."""

    class Staying(parts.Reader):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            if stays is None or getattr(partition, "number", None) == stays:
                Path(mark).touch()
                time.sleep(_STAYS_S)
            return super().read(partition)

    instead(parts, "Reader", lambda _: Staying)


def in_a_writer() -> None:
    """Stay in a task that writes, by an expression that no optimizer moves; its file shows where it has come."""
    sleep = f"CASE WHEN id = '{SLOW_ID}' THEN reflect('java.lang.Thread', 'sleep', {_STAYS_S}000L) = '' ELSE true END"

    def wrap(real: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        return lambda *given, **named: real(*given, **named).where(fn.expr(sleep))

    instead(ParquetTarget, "gathered", wrap)


def between_links(mark: str) -> None:
    """Stay when one of the untouched files stands in the new folder and the others do not."""

    def wrap(real: Callable[[list[str], str, str], None]) -> Callable[[Iterable[str], str, str], None]:
        def link(files: Iterable[str], source: str, target: str) -> None:
            real(list(files)[:1], source, target)
            stand(mark)

        return link

    instead(target_parquet, "link", wrap)


def in_clearing_up(mark: str, switch: tuple[Any, str, int]) -> None:
    """Stay when the old folder has lost some of its files; `switch` is the nth call after which it is the old one."""
    switched: list[bool] = []
    owner, name, times = switch
    around(owner, name, None, counted(times, lambda: switched.append(True)))

    def wrap(real: Callable[[Folders, str], None]) -> Callable[[Folders, str], None]:
        def delete(self: Folders, path: str) -> None:
            if switched and (files := [file for file in self.files(path) if file.endswith(".parquet")]):
                os.remove(os.path.join(path, files[0]))
                stand(mark)
            real(self, path)

        return delete

    instead(Folders, "delete", wrap)


def without_exchange() -> None:
    """A file system without the one step: NFS, or no Linux."""
    instead(target_parquet, "exchange", lambda _: lambda one, other: False)


def arrange(point: str, mark: str) -> None:
    """Let the run stand still at a point."""
    here = lambda: stand(mark)  # noqa: E731
    exchange, moved = (target_parquet, "exchange"), (Folders, "move")
    points: dict[str, Callable[[], None]] = {
        "reading: nothing is read": lambda: in_a_reader(mark, None),
        "reading: one of two parts is read": lambda: in_a_reader(mark, 1),
        "writing: about to": lambda: around(ParquetTarget, "_write", here, None),
        "writing: a file is open": in_a_writer,
        "writing: all files are there": lambda: around(ParquetTarget, "_write", None, here),
        "writing: some files are linked": lambda: between_links(mark),
        "checking: about to": lambda: around(ParquetTarget, "_show", here, None),
        "checking: rows are counted": lambda: around(counts, "check_rows", here, None),
        "switching: about to": lambda: around(*exchange, here, None),
        "switching: done": lambda: around(*exchange, None, here),
        "switching: between two renames": lambda: around(*moved, None, counted(1, here)),
        "switching: after two renames": lambda: around(*moved, None, counted(2, here)),
        "switching: about to show the first table": lambda: around(*moved, here, None),
        "switching: the first table shows": lambda: around(*moved, None, here),
        "clearing up: in the middle": lambda: in_clearing_up(mark, (*exchange, 1)),
        "clearing up: in the middle, after two renames": lambda: in_clearing_up(mark, (*moved, 2)),
        "clearing up: done": lambda: around(ParquetTarget, "replace", None, here),
        "keeping the cursor: about to": lambda: around(cursor, "keep", here, None),
        "keeping the cursor: done": lambda: around(cursor, "keep", None, here),
        "telling: about to": lambda: around(job, "last_line", here, None),
    }
    points[point]()


if __name__ == "__main__":
    name, mark, *rest = sys.argv[1:]
    if "renames" in name:
        without_exchange()
    arrange(name, mark)
    sys.exit(job.main(["--job", *rest]))
