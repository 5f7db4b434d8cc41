"""Whole backfills on real Postgres and real tables: what the target holds after one run, two runs, a change."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from pyspark.sql import Row, SparkSession

from backfill import run as runs
from backfill.columns import LLM_COLUMNS
from backfill.errors import RunFailedError, WrongJobError
from schemas.ids import derived
from schemas.settings import SettingsError
from schemas.text import clean_json, clean_text
from tests.services import PostgresService
from tests.spark.backfilling import LABEL_SCHEMA, Place, migrated, plain
from tests.spark_session import WITH_ICEBERG, delta_spark, spark, spark_packages

__all__ = ["delta_spark", "spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def url(postgres: PostgresService) -> str:
    """A database whose `results` each test empties."""
    return migrated(postgres)


@pytest.fixture(params=["parquet", "delta", *(["iceberg"] if WITH_ICEBERG else [])])
def place(delta_spark: SparkSession, url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """Somewhere to run, once for each kind of target."""
    found = Place(delta_spark, tmp_path, url, request.param)
    found.execute("TRUNCATE headrace.results, headrace.former_results")
    return found


@pytest.fixture
def folder(spark: SparkSession, url: str, tmp_path: Path) -> Place:
    """Somewhere to run into plain Parquet, for rules that no kind of target has a part in."""
    found = Place(spark, tmp_path, url)
    found.execute("TRUNCATE headrace.results, headrace.former_results")
    return found


def test_every_source_row_is_there_once_with_its_answer_or_without(place: Place) -> None:
    (place.folder / "label.json").write_text(json.dumps(LABEL_SCHEMA))
    output = {"json_schema": "label.json"}
    place.source([("a", "text a"), ("b", "text b"), ("c", "text c")])
    place.answer(
        "a",
        result='{"label": "good", "score": 0.5}',
        result_json={"label": "good", "score": 0.5},
        run="run-1",
        model="small",
        endpoint="http://vllm-a:8000/v1",
        prompt_tokens=3_000_000_000,
        completion_tokens=7,
        cost_usd=Decimal("0.000123456"),
        retry_count=2,
        finish_reason="stop",
    )
    place.answer("b", status="failed", reason="timeout", completed_at=None)
    place.answer("orphan")

    counts = place.run(output=output)

    assert (counts.results, counts.rows, counts.joined, counts.pending) == (3, 3, 2, 1)
    assert (counts.failed, counts.written, counts.orphans) == (1, 3, 1)
    assert place.table().columns == ["id", "text", *LLM_COLUMNS]
    first, second, third = place.table().orderBy("id").collect()
    assert tuple(first) == (
        *("a", "text a", "succeeded", None, '{"label": "good", "score": 0.5}', Row(label="good", score=0.5)),
        *("small", "http://vllm-a:8000/v1", place.job(output=output).prompt_version, "run-1"),
        *(3_000_000_000, 7, Decimal("0.00012346"), 3, "stop", NOON.replace(tzinfo=None)),
    )
    assert (second.llm_status, second.llm_reason, second.llm_output) == ("failed", "timeout", None)
    assert {third[name] for name in LLM_COLUMNS} == {None}
    assert dict(place.table().dtypes) == {
        **dict.fromkeys(("id", "text", "llm_status", "llm_reason", "llm_result"), "string"),
        **dict.fromkeys(("llm_model", "llm_endpoint", "llm_prompt_version", "llm_run"), "string"),
        **dict.fromkeys(("llm_prompt_tokens", "llm_completion_tokens"), "bigint"),
        **{"llm_cost_usd": "decimal(18,8)", "llm_attempts": "int", "llm_finish_reason": "string"},
        **{"llm_output": "struct<label:string,score:double>", "llm_completed_at": "timestamp"},
    }


TYPED = {
    "type": "object",
    "properties": {
        "label": {"type": ["string", "null"]},
        "score": {"type": "number"},
        "count": {"type": "integer"},
        "sure": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}
ANSWERS = (
    '{"label": "good", "score": 0.5, "count": 3, "sure": true, "tags": [{"name": "a"}, {"name": null}]}',
    ' {"label": "spaced"}\n',
    '{"label":"caf\\u00e9 \\ud83d\\ude00 \\"q\\" \\n \\\\ é 日本", "tags": []}',
    '{"label": "twice", "label": "again", "more": {"b": 1, "a": [2]}, "aa": 1}',
    '{"score": 1.10, "count": 5.0}',
    '{"score": 1e-3, "count": 1e2}',
    '{"score": -0.12345678901234567890, "count": 9223372036854775807}',
    '{"score": 1e300, "count": 9223372036854775808}',
    '{"score": NaN, "label": "mended"}',
    '{"label": null, "sure": false, "tags": null}',
    '{"label": "\\u0000"}',
    "{}",
    '[{"label": "a list"}]',
    "[]",
    '"only text"',
    '```json\n{"label": "fenced"}\n```',
)


def test_a_typed_answer_reads_the_same_from_its_text_and_from_its_json(
    folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.folder / "typed.json").write_text(json.dumps(TYPED))
    output = {"json_schema": "typed.json"}
    folder.source([(str(number), "x") for number in range(len(ANSWERS) + 1)])
    for number, text in enumerate(ANSWERS):
        value, mended = clean_json(json.loads(text.removeprefix("```json").removesuffix("```")))
        stored, cleaned = clean_text(text)
        folder.answer(str(number), result=stored, result_json=value, sanitised=mended or cleaned)
    folder.answer(str(len(ANSWERS)), result='{"label": "not valid"}', status="failed", reason="invalid_output")
    folder.run(output=output)
    found = {row.id: row.llm_output for row in folder.table().collect()}
    asked = Mock(return_value=False)
    monkeypatch.setattr(runs, "reads_the_same", asked)
    folder.run(output=output, target={"path": "again"})
    again = folder.spark.read.parquet(str(folder.folder / "again"))

    assert {row.id: row.llm_output for row in again.collect()} == found
    asked.assert_called()
    assert found["0"] == Row(label="good", score=0.5, count=3, sure=True, tags=[Row(name="a"), Row(name=None)])
    assert (found["3"].label, found["15"].label, found["8"].label) == ("again", "fenced", "mended")
    assert found["16"] is None


def test_a_second_run_without_news_writes_nothing(place: Place) -> None:
    place.source([("a", "x"), ("b", ""), (None, "no id"), ("c", None)])
    place.answer("a", "b")
    first = place.run()
    before = place.state()
    assert before

    second = place.run(prompt={"template": "Another: {text}"})

    assert (first.written, second.written) == (4, 0)
    assert replace(second, written=4) == first
    assert place.state() == before


def test_an_instant_is_the_same_in_any_zone(place: Place, request: pytest.FixtureRequest) -> None:
    zone = "spark.sql.session.timeZone"
    request.addfinalizer(lambda: place.spark.conf.set(zone, "UTC"))
    times = {"a": "2026-03-08 02:30:00+00", "b": "2026-11-01 01:30:00+00"}
    place.source([(id_, "x") for id_ in times])
    place.spark.conf.set(zone, "America/Los_Angeles")
    for id_, time in times.items():
        place.answer(id_, completed_at=time)
    place.run()

    place.spark.conf.set(zone, "Asia/Kolkata")
    found = place.table().selectExpr("id", "unix_micros(llm_completed_at) DIV 1000000 AS at").orderBy("id")
    assert plain(found.collect()) == [
        (id_, int(datetime.fromisoformat(time).timestamp())) for id_, time in times.items()
    ]


def test_answers_get_newer_and_never_older_or_none(folder: Place) -> None:
    folder.source([("a", "x"), ("b", "x"), ("c", "x"), ("d", "x")])
    folder.answer("a", "b", "d", result="old")
    folder.run()
    version = folder.job().prompt_version

    folder.answer("a", result="corrected")
    folder.answer("b", result="older", completed_at="2026-02-01 00:00:00+00")
    folder.answer("c", result="first", completed_at="2026-02-01 00:00:00+00")
    folder.execute("UPDATE headrace.results SET status = 'claimed' WHERE id = 'd'")
    counts = folder.run()
    assert (counts.results, counts.joined, counts.pending, counts.written) == (3, 4, 0, 2)

    folder.source([(id_, "other text") for id_ in "abcd"])
    assert folder.run(prompt={"template": "Other: {text}"}).written == 4
    assert plain(folder.rows("id", "text", "llm_result", "llm_prompt_version")) == [
        ("a", "other text", "corrected", version),
        ("b", "other text", "old", version),
        ("c", "other text", "first", version),
        ("d", "other text", "old", version),
    ]


def test_one_answer_reaches_all_rows_that_ask_for_it(place: Place) -> None:
    ids = list("abcd")
    place.source([(id_, "x") for id_ in ids])
    place.requests("run-1", a="f1", b="f1", c="f1", d="f2")
    place.answer("b", fingerprint="f1", result="one", cost_usd=Decimal("0.25"), prompt_tokens=7, retry_count=1)
    place.answer("zz", fingerprint="f9")
    first = place.run()
    assert (first.results, first.rows, first.joined, first.pending, first.written, first.orphans) == (
        2,
        4,
        3,
        1,
        4,
        1,
    )
    names = ("id", "llm_status", "llm_result", "llm_cost_usd", "llm_prompt_tokens", "llm_attempts")
    nothing, half = Decimal("0E-8"), Decimal("0.25000000")
    assert plain(place.rows(*names)) == [
        ("a", "succeeded", "one", nothing, 0, 0),
        ("b", "succeeded", "one", half, 7, 2),
        ("c", "succeeded", "one", nothing, 0, 0),
        ("d", None, None, None, None, None),
    ]
    before = place.state()
    assert place.run().written == 0
    assert place.state() == before

    place.answer("b", fingerprint="f1", result="corrected")
    late = place.run()
    assert (late.written, late.joined) == (3, 3)
    assert {row.llm_result for row in place.rows("id", "llm_result")[:3]} == {"corrected"}


def test_a_row_gets_the_answer_to_what_it_asks_now_however_old_it_is(place: Place) -> None:
    place.source([("a", "x"), ("b", "y"), ("c", "x")])
    place.requests("run-1", a="f1", b="f2", c="f1")
    place.answer("a", fingerprint="f1", result="one", completed_at="2026-01-01 00:00:00+00")
    place.answer("b", fingerprint="f2", result="two")
    place.run()

    # b asks what a was told long ago, and a something new; the old answer outlives a's new question.
    place.requests("run-2", a="f3", b="f1", c="f1")
    place.answer("a", fingerprint="f3", status="claimed")
    waiting = place.run()
    assert (waiting.written, waiting.joined, waiting.pending) == (1, 3, 0)
    assert plain(place.rows("id", "llm_result", "llm_attempts")) == [
        ("a", "one", 1),
        ("b", "one", 0),
        ("c", "one", 0),
    ]
    assert place.run().written == 0

    place.answer("a", fingerprint="f3", status="succeeded", result="three")
    assert place.run().written == 1
    place.requests("run-3", a="f1", b="f2", c="f4")
    # a goes back to its first question, b to its own; c waits for an answer and keeps the one it has.
    assert place.run().written == 2
    assert plain(place.rows("id", "llm_result")) == [("a", "one"), ("b", "two"), ("c", "one")]


def test_a_failure_is_everybodys_until_one_retry_succeeds(place: Place) -> None:
    place.source([("a", "x"), ("b", "x")])
    place.requests("run-1", a="f1", b="f1")
    place.answer("a", fingerprint="f1", status="failed", result=None, reason="timeout")
    failed = place.run()
    assert (failed.joined, failed.failed) == (2, 2)
    assert {row.llm_reason for row in place.rows("llm_reason")} == {"timeout"}

    place.answer("a", fingerprint="f1", status="succeeded", result="yes", reason=None)
    assert (place.run().failed, place.run().written) == (0, 0)
    assert plain(place.rows("id", "llm_result")) == [("a", "yes"), ("b", "yes")]


def test_results_that_are_committed_late_are_found(folder: Place) -> None:
    folder.source([("a", "x"), ("b", "x")])
    statement = (
        b"INSERT INTO headrace.results (job, id, status, completed_at) VALUES ('reviews', 'a', 'failed', now())"
    )
    with psycopg.connect(folder.url) as early:
        early.execute(statement)
        folder.answer("b")
        assert (folder.run().joined, folder.run().written) == (1, 0)
        early.commit()
    assert (folder.run().joined, folder.run().written) == (2, 0)


def test_repeated_and_missing_ids_keep_their_rows(place: Place) -> None:
    rows = [("5", "x"), ("5", "y"), ("5", "y"), (None, "p"), (None, "q"), ("6", "z")]
    expected = [("5", "x", "yes"), ("5", "y", "yes"), ("5", "y", "yes"), ("6", "z", None)]
    place.source(rows)
    place.run()
    place.answer("5", status="failed", result=None, reason="timeout")
    place.run()
    place.answer("5", result="yes", reason=None)

    counts = place.run()

    assert (counts.rows, counts.joined, counts.pending, counts.written) == (6, 3, 3, 3)
    assert plain(place.rows("id", "text", "llm_result")) == [*expected, (None, "p", None), (None, "q", None)]
    place.source([*rows, (None, "p"), ("5", "w")])
    assert place.run().written == 2 + 4
    assert place.table().count() == 8
    place.source([("5", "x"), (None, "q")])
    assert place.run().written == 1
    assert plain(place.rows("id", "text"))[:2] == [("5", "x"), ("6", "z")]


def test_ids_meet_by_their_exact_text(folder: Place) -> None:
    ids = ["000123", "123", "21602730330000060100100000358582", "1e5", "true", "É", "é", "e\u0301"]
    folder.source([(id_, "x") for id_ in ids])
    for id_ in ids:
        folder.answer(id_, result=f"for {id_}")

    assert folder.run().joined == len(ids)
    assert plain(folder.rows("id", "llm_result")) == sorted((id_, f"for {id_}") for id_ in ids)


def test_ids_made_of_content_meet_in_every_format(place: Place) -> None:
    rows = [("shop", "a", 1), ("", "b", 2), (None, "b", 3), (None, None, 4)]
    place.source(rows, "shop string, text string, n int")
    first, second = derived(["shop", "a"]), derived(["", "b"])
    assert first
    assert second
    place.answer(first, result="first")
    place.answer(second, result="second")
    changes: dict[str, Any] = {"id": {"from": ["shop", "text"]}, "target": {"partition_by": ["shop"]}}

    assert place.run(**changes).joined == 3
    place.answer(first, result="later", completed_at="2026-04-01 00:00:00+00")
    assert place.run(**changes).written == 1
    assert plain(place.rows("n", "llm_result")) == [(1, "later"), (2, "second"), (3, "second"), (4, None)]


def test_whole_numbers_are_ids_too(place: Place) -> None:
    place.spark.sql("SELECT CAST(7 AS bigint) AS id, 'x' AS text").write.parquet(str(place.folder / "rows"))
    place.answer("7", result="yes")
    place.run()
    place.answer("7", result="no")

    assert place.run().written == 1
    assert plain(place.rows("id", "llm_result")) == [(7, "no")]


def test_partition_values_come_back_as_they_were(place: Place) -> None:
    days = ["0123", "", None, "a/b=c%d é", "2026-01-01"]
    place.source([(str(n), day, "x") for n, day in enumerate(days)], "id string, day string, text string")
    parts = {"target": {"partition_by": ["day"]}}
    place.answer("3", result="yes")
    place.run(**parts)
    before = place.state()
    assert place.run(**parts).written == 0
    assert place.state() == before

    place.answer("0", "1", result="yes")
    seen = place.run(target=parts["target"], source={"where": "day IN ('0123', '') OR day IS NULL"})
    assert (seen.rows, seen.written) == (3, 2)
    read = place.spark.read.schema("id string, llm_result string, day string").format(place.format)
    found = read.load(str(place.target)) if place.format == "parquet" else place.table()
    assert sorted(map(str, found.select("id", "day", "llm_result").collect())) == sorted(
        str(Row(id=str(n), day=day or None, llm_result="yes" if n in {0, 1, 3} else None))
        for n, day in enumerate(days)
    )


def test_nested_source_columns_are_compared_whole(folder: Place) -> None:
    schema = "id string, s struct<a: string, b: string>, l array<string>, m map<string, int>"
    folder.source([("a", ("x", None), ["p", None], {"k": 1})], schema)
    folder.run(prompt={"template": "{id}"})
    changed = [
        ("a", (None, "x"), ["p", None], {"k": 1}),
        ("a", (None, "x"), [None, "p"], {"k": 1}),
        ("a", (None, "x"), [None, "p"], {"k": 2}),
    ]
    for row in changed:
        folder.source([row], schema)
        assert folder.run(prompt={"template": "{id}"}).written == 1
    assert folder.run(prompt={"template": "{id}"}).written == 0


def test_a_run_makes_at_most_one_small_file(place: Place, request: pytest.FixtureRequest) -> None:
    place.spark.conf.set("spark.sql.shuffle.partitions", "20")
    request.addfinalizer(lambda: place.spark.conf.set("spark.sql.shuffle.partitions", "2"))
    place.source([(str(n), "x") for n in range(100)])
    for run in range(3):
        place.answer(*(str(n) for n in range(run * 30, run * 30 + 30)))
        place.run()
        assert len(place.table().inputFiles()) <= run + 1


def test_a_table_with_other_columns_is_refused_and_left_alone(place: Place) -> None:
    place.source([("a", "x")])
    place.run()
    before = place.state()

    place.source([("a", 1)], "id string, text int")
    with pytest.raises(RunFailedError, match="column text as string, now it is int"):
        place.run()
    place.source([("a", "x", 1)], "id string, text string, stars int")
    with pytest.raises(RunFailedError, match="no column stars"):
        place.run()
    with pytest.raises(RunFailedError, match="partitioned by"):
        place.run(target={"partition_by": ["text"]})
    assert place.state() == before


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"source": {"path": "nowhere"}}, "source.path: .*nowhere does not exist"),
    ({"source": {"where": "no_such = 1"}}, "source.where"),
    ({"source": {"where": "id ="}}, "source.where"),
    ({"id": "no_such"}, "id: the source has no column no_such"),
    ({"target": {"partition_by": ["no_such"]}}, "target.partition_by"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_a_job_file_that_does_not_fit_the_source_is_told(
    folder: Place, changes: dict[str, Any], message: str
) -> None:
    folder.source([("a", "x")])
    with pytest.raises((WrongJobError, SettingsError), match=message):
        folder.run(**changes)


@pytest.mark.parametrize("schema", ["id double, t string", "id string, LLM_status string", "id string, a int, A int"])
def test_columns_that_cannot_be_are_told(folder: Place, schema: str, request: pytest.FixtureRequest) -> None:
    rows = folder.spark.createDataFrame([], schema)
    folder.spark.conf.set("spark.sql.caseSensitive", "true")
    request.addfinalizer(lambda: folder.spark.conf.unset("spark.sql.caseSensitive"))
    rows.write.parquet(str(folder.folder / "rows"))

    with pytest.raises(SettingsError, match=r"id: column id is double|LLM_status|case alone"):
        folder.run(prompt={"template": "{id}"})


def test_an_empty_source_makes_an_empty_table_even_in_an_empty_folder(folder: Place) -> None:
    folder.target.mkdir()
    folder.source([])

    assert folder.run().rows == 0
    assert folder.table().count() == 0
    assert folder.table().columns == ["id", "text", *LLM_COLUMNS]
