"""What a table looks like from outside: hidden files, partition folders, columns that have drifted."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from backfill.layout import drift, folder_values, is_hidden, partition_drift


@pytest.mark.parametrize(
    ("file", "hidden"),
    [
        ("part-0.parquet", False),
        ("_SUCCESS", True),
        (".part-0.parquet.crc", True),
        ("_temporary/0/part-0.parquet", True),
        ("_day=2026/part-0.parquet", False),
        ("notes.txt", False),
    ],
)
def test_readers_pass_over_hidden_files(file: str, hidden: bool) -> None:
    assert is_hidden(file) is hidden


def test_folders_tell_their_values_as_text() -> None:
    file = "day=2026-01-01 02%3A30%3A00/code=0123/lang=__HIVE_DEFAULT_PARTITION__/part-0.parquet"

    assert folder_values(file) == {"day": "2026-01-01 02:30:00", "code": "0123", "lang": None}
    assert folder_values("a%3Db=c%25d=e/part-0.parquet") == {"a=b": "c%d=e"}
    assert folder_values("part-0.parquet") == {}


def test_drift_names_every_column_and_how_it_differs() -> None:
    def table(**types: StringType | LongType | IntegerType) -> StructType:
        return StructType([StructField(name, kind) for name, kind in types.items()])

    wanted = table(id=StringType(), tokens=LongType(), text=StringType())

    assert drift(table(text=StringType(), tokens=LongType(), id=StringType()), wanted) == []
    assert drift(table(id=StringType(), tokens=IntegerType(), old=StringType()), wanted) == [
        "has no column text (string)",
        "has a column old, which the source no longer has",
        "has column tokens as int, now it is bigint",
    ]


def test_partitions_are_compared_in_their_order() -> None:
    assert partition_drift(["day", "lang"], ["day", "lang"]) == []
    assert partition_drift(["lang", "day"], ["day", "lang"]) == [
        "is partitioned by [lang, day], the job file says [day, lang]"
    ]
