"""Postgres's CSV becomes Arrow batches to the letter."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from backfill.results import BESIDE_TEXT, KNOWN, columns, parse, schema, selected

ALL = columns(with_json=True)


def test_null_and_empty_text_differ_and_every_character_survives() -> None:
    piece = (
        b'a,,succeeded,,"","{""k"": ""v""}",stop,3000000000,,0,small,http://vllm,0.00012345,1773109800000001\n'
        b'"b,\r\n""c""",run,failed,timeout,"line\nline",,,,,2,,,,\n'
    )
    first, second = parse(piece, ALL).to_pylist()

    assert list(first) == schema(ALL).names == list(ALL)
    assert (first["run"], first["result"], first["result_json"]) == (None, "", '{"k": "v"}')
    assert first["prompt_tokens"] == 3_000_000_000
    assert first["cost_usd"] == Decimal("0.00012345")
    assert first["completed_at"] == datetime(2026, 3, 10, 2, 30, 0, 1, tzinfo=UTC)
    assert (second["id"], second["result"]) == ('b,\r\n"c"', "line\nline")
    assert (second["cost_usd"], second["completed_at"]) == (None, None)


def test_words_that_look_like_null_are_text() -> None:
    row = parse(b"NULL,nan,succeeded,,N/A,,,,,0,,,,\n", ALL).to_pylist()[0]

    assert (row["id"], row["run"], row["result"]) == ("NULL", "nan", "N/A")


def test_the_parsed_json_is_left_out_where_nobody_reads_it() -> None:
    assert "result_json::text" in selected(ALL)
    assert "result_json" not in selected(columns(with_json=False))
    assert "result_json" not in selected(columns(with_json=False, from_text=True))
    beside = columns(with_json=True, from_text=True)
    assert len(beside) == len(ALL)
    assert set(beside) - set(ALL) == {BESIDE_TEXT}


def test_what_settles_the_rows_of_a_result_travels_without_it() -> None:
    row = parse(b"a,f1,succeeded,1773109800000001,a\n", KNOWN).to_pylist()[0]

    assert list(row) == list(KNOWN)
    assert (row["fingerprint"], row["handle"]) == ("f1", "a")
    assert not {"result", "result_json"} & set(KNOWN)
