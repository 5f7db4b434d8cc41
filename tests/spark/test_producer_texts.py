"""Checks of text that are written for speed say the same as the slow ones that they stand for."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from producer.texts import WHITE_SPACE, is_blank, is_no_text, sendable
from schemas.text import clean_text

pytestmark = pytest.mark.spark

_PLAIN = [
    b"",
    b"a",
    "naïve 🎉 漢字".encode(),
    "\ufffd".encode(),
    b"a\x00b",
    b"\x7f" * 40,
    "\ud7ff\ue000\U0010ffff".encode(),
]
# Cut off, overlong, halves of a surrogate pair, beyond the last code point, and bytes that begin nothing.
_BROKEN = [
    b"a\xe9",
    b"\xe2\x82",
    b"\xf0\x9f\x8e",
    b"\xc0\xaf",
    b"\xe0\x80\xaf",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\x80",
    b"\xff",
    b"x" * 2_000 + b"\xfe",
    "\ufffd".encode() + b"\x80",
]


def texts(spark: SparkSession, values: list[bytes]) -> DataFrame:
    # Bytes from a table, so that nothing is worked out before rows are read.
    rows = spark.createDataFrame([(value,) for value in values], "bytes binary")
    return rows.select("bytes", fn.col("bytes").cast("string").alias("text"))


def decodes(value: bytes) -> bool:
    return value.decode(errors="replace").encode() == value


def test_bytes_are_no_text_exactly_where_they_are_no_utf_8(spark: SparkSession) -> None:
    whole = [before + value + after for value in _BROKEN for before in (b"", b"ok ") for after in (b"", b" ok")]
    rows = texts(spark, _PLAIN + whole).withColumn("broken", is_no_text(fn.col("text"))).collect()

    assert {bytes(row["bytes"]): row["broken"] for row in rows} == dict.fromkeys(_PLAIN, False) | dict.fromkeys(
        whole, True
    )
    assert not any(decodes(value) for value in whole)
    assert all(map(decodes, _PLAIN))


def test_whether_there_is_text_at_all_is_not_asked_of_a_null(spark: SparkSession) -> None:
    (row,) = (
        spark.sql("SELECT CAST(NULL AS STRING) AS text").select(is_no_text(fn.col("text")).alias("broken")).collect()
    )

    assert not row["broken"]


def test_text_is_blank_exactly_where_python_strips_all_of_it(spark: SparkSession) -> None:
    begun = [*WHITE_SPACE, "a", "é", "漢", "🎉", "\u200b", "\u0080", "\ue000", "\x00", "\u2010"]
    values = ["", *begun, *(one + rest for one in begun for rest in (" ", "\u3000\t", "x", "🎉 "))]
    rows = texts(spark, [value.encode() for value in values]).withColumn("blank", is_blank(fn.col("text"))).collect()

    assert {row["text"]: row["blank"] for row in rows} == {value: not value.strip() for value in values}


def test_u_0000_is_replaced_wherever_it_stands_and_nothing_else_is(spark: SparkSession) -> None:
    values = ["", "\0", "\0\0", "a\0", "\0a", "é\0漢\0", "0", "\\0", "\x01", "Ā", "x" * 3_000 + "\0"]
    rows = texts(spark, [value.encode() for value in values]).withColumn("sent", sendable(fn.col("text"))).collect()

    assert {row["text"]: row["sent"] for row in rows} == {value: clean_text(value)[0] for value in values}
