"""Rules of cleaning, each beside what it does to text."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from producer import columns as names
from producer.judging import judge
from producer.texts import WHITE_SPACE, cleaning, cutting, has_more_tokens, sendable, tokens
from schemas.shaping import Clean
from schemas.text import clean_text
from schemas.tokens import estimated_tokens
from tests.spark.producing import body, judged_texts, make_run, reason, texts_frame, write_job, write_rows
from worker.core.tokens import Estimate, Size

pytestmark = pytest.mark.spark

MANY = settings(max_examples=3, deadline=None, suppress_health_check=[*HealthCheck], derandomize=True, database=None)
Form = Literal["NFC", "NFD", "NFKC", "NFKD"]


def clean(spark: SparkSession, texts: list[str | None], **rules: Any) -> list[str | None]:
    frame = texts_frame(spark, texts)
    for step in cleaning(Clean(columns=["text"], **rules)):
        frame = frame.withColumn("text", step(fn.col("text")))
    return [row[0] for row in frame.collect()]


def test_white_space_is_what_python_strips() -> None:
    assert "".join(char for char in map(chr, range(0x110000)) if char.isspace()) == WHITE_SPACE


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("plain", "plain"),
        ("<p class='a'>one</p><p>two</p>", "one\ntwo\n"),
        ("a<br>b<BR/>c", "a\nb\nc"),
        ("<b>bo</b>ld", "bold"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("a &lt;b&gt; &amp;amp; &quot;c&quot; &eacute; &#233; &#xE9; &#127881;", 'a <b> &amp; "c" é é é 🎉'),
        ("<script>alert('<b>')</script >x<style>p{}</style>y<!-- <b>no</b> -->z", "xyz"),
        ("shown<script>never closed <b>", "shown"),
        ("<!DOCTYPE html><?xml?>x", "x"),
        ("&#1114112; stays", "&#1114112; stays"),
        ("&#0;", "\ufffd"),
        ("fish & chips &nosuch;", "fish & chips &nosuch;"),
        ("<a <b>x", "<a x"),
        (None, None),
    ],
)
def test_html_leaves_its_text(spark: SparkSession, html: str | None, text: str | None) -> None:
    assert clean(spark, [html], strip_html=True) == [text]


def test_hostile_html_takes_no_more_than_linear_time(spark: SparkSession) -> None:
    hostile: list[str | None] = ["<!--" * 200_000, "<script " * 100_000, "<a" * 400_000, "&#" * 400_000]
    cleaned_texts = clean(spark, hostile, strip_html=True)

    assert cleaned_texts == ["", "", "<a" * 400_000, "&#" * 400_000]


def test_white_space_collapses_whatever_its_kind(spark: SparkSession) -> None:
    messy = f" \u3000a{WHITE_SPACE}b\tc\n"
    assert clean(spark, [messy, None, " \n "], collapse_whitespace=True) == ["a b c", None, ""]


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_the_normal_form_is_unicodes(spark: SparkSession, form: Form) -> None:
    @MANY
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cn"])), min_size=50, max_size=200))
    def agrees(texts: list[str]) -> None:
        some: list[str | None] = [
            *texts,
            "e\u0301",
            "ﬁ",
            "Å",
            "한글",
            "\u1100\u1161",
            "a\u0323\u0307",
            "🎉",
            "ascii",
            None,
        ]
        expected = [text and unicodedata.normalize(form, text) for text in some]
        assert clean(spark, some, normalize=form) == expected

    agrees()


def test_nul_becomes_the_replacement_character(spark: SparkSession) -> None:
    texts: list[str | None] = ["\0", "a\0\0b", "", "clean", None]
    found = [row[0] for row in texts_frame(spark, texts).select(sendable(fn.col("text"))).collect()]

    assert found == [text if text is None else clean_text(text)[0] for text in texts]


def test_a_cut_falls_between_code_points_and_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    family = "12345678\U0001f468\u200d\U0001f469\u200d\U0001f467"
    rows = [("1", "123456789🎉tail"), ("2", family), ("3", "1234567890"), ("4", "short")]
    found = {
        row[names.ID]: row
        for row in judged_texts(spark, tmp_path, rows, clean={"columns": ["text"], "max_chars": 10})
    }

    assert {id_: body(row)["prompt"] for id_, row in found.items()} == {
        "1": "123456789🎉",
        "2": "12345678\U0001f468\u200d",
        "3": "1234567890",
        "4": "short",
    }
    assert [id_ for id_, row in found.items() if row[names.TRUNCATED]] == ["1", "2"]


def test_control_characters_go_and_those_that_part_words_leave_a_space(spark: SparkSession) -> None:
    every = "".join(map(chr, range(0x20))) + "".join(map(chr, range(0x7F, 0xA0)))
    texts: list[str | None] = [f"a{every}b", "a\0b\x1b[31m\u200d\ufeff", "", None]

    assert clean(spark, texts, strip_control=True) == ["a\t\n  \r     b", "ab[31m\u200d\ufeff", "", None]
    assert clean(spark, ["&#0;&#7;a&#11;b"], strip_control=True, strip_html=True) == ["a b"]


def test_tokens_are_estimated_and_cut_by_the_workers_own_rule(spark: SparkSession) -> None:
    @MANY
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=50), st.integers(1, 12))
    def agrees(texts: list[str], most: int) -> None:
        some: list[str | None] = [*texts, "", "a" * 2, "a" * 3, "a" * 6, "a" * 7, "中文字符", "é🎉" * 9]
        rules = Clean(columns=["text"], max_tokens=most)
        frame = texts_frame(spark, some).withColumns(
            {
                "estimate": tokens(fn.col("text")),
                "over": has_more_tokens(fn.col("text"), rules),
                "cut": next(step(fn.col("text")) for step in cutting(rules)),
            }
        )
        for row in frame.collect():
            size = Size(len(row["text"].encode()))
            assert row["estimate"] == Estimate().prompt_tokens(size)
            assert row["over"] == (row["estimate"] > most)
            assert row["cut"] == longest_prefix(row["text"], most)

    agrees()


def test_u0000_goes_with_the_other_control_characters(spark: SparkSession, tmp_path: Path) -> None:
    (row,) = judged_texts(spark, tmp_path, [("1", "a\0b")], clean={"columns": ["text"], "strip_control": True})

    assert body(row)["prompt"] == "ab"


def longest_prefix(text: str, most: int) -> str:
    sizes = range(len(text), -1, -1)
    return next(text[:size] for size in sizes if estimated_tokens(len(text[:size].encode())) <= most)


def test_a_text_of_too_many_tokens_is_cut_or_rejected(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("1", "一二三四五六七八九十"), ("2", "short"), ("3", "abcdefghij")]
    rules: dict[str, Any] = {"columns": ["text"], "max_tokens": 4, "max_chars": 9}
    found = {row[names.ID]: row for row in judged_texts(spark, tmp_path, rows, clean=rules)}
    assert {id_: (body(row)["prompt"], row[names.TRUNCATED]) for id_, row in found.items()} == {
        "1": ("一二三四", True),
        "2": ("short", False),
        "3": ("abcdefghi", True),
    }
    rules = {"columns": ["text"], "max_tokens": 4, "on_overlong": "reject"}
    found = {row[names.ID]: row for row in judged_texts(spark, tmp_path, rows, clean=rules)}
    assert {id_: reason(row) for id_, row in found.items()} == {"1": "too_long", "2": None, "3": None}
    assert found["1"][names.VERDICT]["detail"] == "text: about 9 tokens"


def test_overlong_and_short_text_is_rejected_by_length(spark: SparkSession, tmp_path: Path) -> None:
    rules = {"columns": ["text"], "strip_html": True, "min_chars": 2, "max_chars": 4, "on_overlong": "reject"}
    rows = [("1", "🎉" * 5), ("2", "<b>a</b>"), ("3", "<i>four</i>"), ("4", "ab")]
    found = {row[names.ID]: row for row in judged_texts(spark, tmp_path, rows, clean=rules)}

    assert {id_: reason(row) for id_, row in found.items()} == {
        "1": "too_long",
        "2": "too_short",
        "3": None,
        "4": None,
    }
    assert found["1"][names.VERDICT]["detail"] == "text: 5 characters"


def test_columns_that_no_rule_names_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    (row,) = judged_texts(spark, tmp_path, [("1", "  <b> a  b ")])

    assert body(row)["prompt"] == "  <b> a  b "


def test_many_rules_do_not_multiply_in_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    every = {"strip_html": True, "collapse_whitespace": True, "normalize": "NFC", "max_chars": 9}
    write_rows(spark, tmp_path, [("1", "a", "b")], "id string, text string, title string")
    sizes = []
    for columns in (["text"], ["text", "title"]):
        job = write_job(tmp_path, prompt={"template": "{title} {text}"}, clean={"columns": columns, **every})
        with judge(spark, make_run(job)) as found:
            sizes.append(len(found.rows._jdf.queryExecution().optimizedPlan().toString()))

    assert sizes[0] < 30_000
    assert sizes[1] < 1.5 * sizes[0]
