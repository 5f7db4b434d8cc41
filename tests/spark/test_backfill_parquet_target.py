"""A folder of Parquet files stays whole: whatever is killed, whoever reads, whichever partitions a run touches."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from backfill import target_parquet
from backfill.changes import HELD, ROWS
from backfill.columns import KEY
from backfill.errors import RunFailedError
from backfill.target import Replacement, Shape, Written
from backfill.target_parquet import ParquetTarget
from backfill.transform import keyed

pytestmark = pytest.mark.spark

SCHEMA = StructType([StructField(name, StringType()) for name in ("id", "day", "llm_status")])
DAYS = [("a", "1", None), ("b", "2", None), ("c", "3", None)]


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> ParquetTarget:
    """A target partitioned by day, with one row a day."""
    found = ParquetTarget(spark, str(tmp_path / "table"), Shape(SCHEMA, 2, "id", ["day"]))
    found.create(spark.createDataFrame(DAYS, SCHEMA), accept)
    return found


def accept(made: Written) -> None:
    """Every table is good whose files tell the rows that Spark finds."""
    assert made.counted == made.rows() == made.table.count()


def refuse(made: Written) -> None:
    raise RunFailedError("the lock was lost")


def replacement(target: ParquetTarget, *rows: tuple[str, str, str | None]) -> Replacement:
    """Rows in the place of those with the same ids, which are all there already."""
    present = target.existing()
    assert present is not None
    new = keyed(target.spark.createDataFrame(list(rows), SCHEMA), "id", target.shape.source)
    counted = new.withColumns({ROWS: fn.lit(1), HELD: fn.lit(1)})
    return Replacement(counted.select(KEY, ROWS, HELD), counted, keyed(present, "id", target.shape.source))


def rows(target: ParquetTarget) -> list[tuple[str, str, str | None]]:
    """The table as anybody reads it."""
    read = target.spark.read.schema(SCHEMA).parquet(target.path)
    return sorted(((row.id, row.day, row.llm_status) for row in read.collect()), key=str)


def inodes(target: ParquetTarget) -> dict[str, int]:
    path = Path(target.path)
    return {str(file.relative_to(path)): file.stat().st_ino for file in path.rglob("*.parquet")}


def left_over(target: ParquetTarget) -> list[str]:
    return sorted(file.name for file in Path(target.path).parent.iterdir() if file.name != "table")


def test_untouched_partitions_are_the_same_files(target: ParquetTarget) -> None:
    before = inodes(target)
    target.replace(replacement(target, ("b", "2", "succeeded")), accept)
    after = inodes(target)

    assert rows(target) == [("a", "1", None), ("b", "2", "succeeded"), ("c", "3", None)]
    assert {name for name in before if "day=2" not in name} == {name for name in after if name in before}
    assert all(before[name] == after[name] for name in after if name in before)
    assert len(after) == 3
    assert left_over(target) == []


def test_a_row_may_move_to_another_partition(target: ParquetTarget) -> None:
    target.replace(replacement(target, ("b", "9", "failed")), accept)

    assert rows(target) == [("a", "1", None), ("b", "9", "failed"), ("c", "3", None)]


def test_many_touched_partitions_are_all_written_anew(target: ParquetTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_parquet, "_MOST_FILTERED", 1)
    target.replace(replacement(target, ("a", "1", "failed"), ("b", "2", "failed")), accept)

    assert rows(target) == [("a", "1", "failed"), ("b", "2", "failed"), ("c", "3", None)]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_rows_that_do_not_add_up_never_show(
    target: ParquetTarget, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = inodes(target)
    if not can_exchange:
        # A file system without the exchange: NFS, or no Linux.
        monkeypatch.setattr(target_parquet, "exchange", lambda one, other: False)
    new = replacement(target, ("b", "2", "succeeded"))
    with pytest.raises(RunFailedError, match="lock"):
        target.replace(new, refuse)
    assert inodes(target) == before

    target.replace(replacement(target, ("b", "2", "succeeded")), accept)
    assert rows(target)[1] == ("b", "2", "succeeded")
    assert left_over(target) == []


def test_a_run_that_was_killed_while_writing_leaves_no_trace(target: ParquetTarget) -> None:
    before = inodes(target)
    half = Path(target.path).parent / ".table.headrace-new" / "day=2"
    half.mkdir(parents=True)
    (half / "part-0.parquet").write_bytes(b"half a file")

    assert target.existing() is not None
    assert inodes(target) == before
    assert left_over(target) == []


def test_a_run_that_was_killed_between_two_renames_is_put_right(target: ParquetTarget) -> None:
    before = inodes(target)
    parent = Path(target.path).parent
    (parent / "table").rename(parent / ".table.headrace-old")
    (parent / ".table.headrace-new").mkdir()

    assert target.existing() is not None
    assert inodes(target) == before
    assert left_over(target) == []


def test_a_first_run_that_was_killed_starts_again(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / ".table.headrace-new").mkdir()
    (tmp_path / ".table.headrace-new" / "part-0.parquet").write_bytes(b"half a file")
    target = ParquetTarget(spark, str(tmp_path / "table"), Shape(SCHEMA, 2, "id", ["day"]))

    assert target.existing() is None
    target.create(spark.createDataFrame(DAYS, SCHEMA), accept)
    assert rows(target) == DAYS


def test_files_of_others_are_not_dropped(target: ParquetTarget) -> None:
    (Path(target.path) / "notes.txt").write_text("mine")

    with pytest.raises(RunFailedError, match=r"notes\.txt"):
        target.existing()


def test_a_linked_folder_stays_a_link(target: ParquetTarget, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(target.path)
    linked = ParquetTarget(target.spark, str(tmp_path / "link"), target.shape)
    linked.replace(replacement(linked, ("a", "1", "failed")), accept)

    assert (tmp_path / "link").is_symlink()
    assert rows(target)[0] == ("a", "1", "failed")
