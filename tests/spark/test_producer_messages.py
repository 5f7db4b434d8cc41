"""What Spark publishes is what the worker reads: the same text, the same request, the same fingerprint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from producer import columns as names
from schemas.fingerprint import fingerprint
from schemas.message import Prompt, decode, id_problem
from tests.spark.producing import body, judged, judged_texts, reason, write_job, write_rows

pytestmark = pytest.mark.spark

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
# One Spark job an example, many texts in each.
MANY = settings(max_examples=4, deadline=None, suppress_health_check=[*HealthCheck], derandomize=True, database=None)
AWKWARD = [
    "\0",
    "a\0b",
    "🎉",
    "\u2028",
    '"\\/\b\f\n\r\t',
    "{text}",
    "{{",
    "\x7f\x80",
    "\ufeff",
    "\ufffd",
    "é",
    "e\u0301",
]


def decoded(row: Row) -> Prompt:
    prompt = decode(row[names.ID].encode(), row[names.VALUE].encode())
    assert isinstance(prompt, Prompt), prompt
    return prompt


def asked(prompt: Prompt) -> str:
    return fingerprint(prompt.model, prompt.messages, prompt.params, prompt.response_format)


@MANY
@given(texts=st.lists(TEXT, min_size=40, max_size=80), template=TEXT, system=TEXT, params=st.dictionaries(TEXT, TEXT))
def test_fingerprint_and_text_agree_for_any_text(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, texts: list[str], **constants: Any
) -> None:
    folder = tmp_path_factory.mktemp("property")
    literal = constants["template"].replace("{", "{{").replace("}", "}}")
    prompt: dict[str, Any] = {"template": f"{literal}{{text}}{literal}"}
    if constants["system"].strip():
        prompt["system"] = constants["system"].replace("{", "{{").replace("}", "}}")
    rows = [(f"r-{number}", text) for number, text in enumerate([*texts, *AWKWARD])]

    found = judged_texts(spark, folder, rows, prompt=prompt, params=constants["params"])

    assert len(found) == len(rows)
    by_id = {row[names.ID]: row for row in found}
    for id_, text in rows:
        row = by_id[id_]
        if not text.strip():
            assert reason(row) == "blank_prompt"
            continue
        expected = (constants["template"] + text + constants["template"]).replace("\0", "\ufffd")
        read = decoded(row)
        assert read.messages[-1] == {"role": "user", "content": expected}
        assert [m["content"] for m in read.messages[:-1]] == [constants["system"].replace("\0", "\ufffd")] * (
            "system" in prompt
        )
        assert read.fingerprint == row[names.FINGERPRINT] == asked(read)
        assert not read.sanitised


def test_a_message_holds_all_that_the_worker_needs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "label v1.json").write_text('{"type": "object", "properties": {"größe": {"type": "number"}}}')
    write_rows(spark, tmp_path, [("r-17", "naïve 🎉 <b>")], "id string, text string")
    job = write_job(
        tmp_path,
        prompt={"system": 'Say "ja" {{}}.', "template": "Review: {text}\nLabel:"},
        params={"temperature": 0.10, "max_tokens": 5, "stop": ["\n", None, "\0"]},
        output={"json_schema": "label v1.json"},
    )

    (row,) = judged(spark, job)
    read = decoded(row)

    assert read.messages == (
        {"role": "system", "content": 'Say "ja" {}.'},
        {"role": "user", "content": "Review: naïve 🎉 <b>\nLabel:"},
    )
    assert read.params == {"temperature": 0.1, "max_tokens": 5, "stop": ["\n", None, "\ufffd"]}
    assert not read.sanitised
    assert read.response_format == {
        "type": "json_schema",
        "json_schema": {
            "name": "label_v1",
            "schema": {"type": "object", "properties": {"größe": {"type": "number"}}},
            "strict": True,
        },
    }
    assert (read.job, read.id, read.model) == ("reviews", "r-17", None)
    assert read.run
    assert read.published_at
    assert read.fingerprint == asked(read)
    assert "naïve 🎉 <b>" in row[names.VALUE]
    assert "\\u" not in row[names.VALUE]


def test_the_smallest_message_is_a_prompt_without_empty_fields(spark: SparkSession, tmp_path: Path) -> None:
    (row,) = judged_texts(spark, tmp_path, [("1", "hi")])

    assert set(body(row)) == {"v", "id", "job", "run", "published_at", "fingerprint", "prompt"}


def test_what_a_column_holds_is_never_read_as_a_template(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(spark, tmp_path, [("1", "{b} {{ {0.__class__} %s", "B")], "id string, text string, b string")
    (row,) = judged(spark, write_job(tmp_path, prompt={"template": "{{{text}}} {b}"}))

    assert body(row)["prompt"] == "{{b} {{ {0.__class__} %s} B"


def test_the_first_route_that_holds_names_the_model(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("1", "short", 1), ("2", "long " * 10, 1), ("3", "long " * 10, 9), ("4", "long " * 10, None)]
    write_rows(spark, tmp_path, rows, "id string, text string, stars int")
    routes = [{"when": "prompt_chars < 10", "model": "small"}, {"when": "stars > 5", "model": "large"}]
    found = {row[names.ID]: row for row in judged(spark, write_job(tmp_path, routes=routes))}

    assert {id_: body(row).get("model") for id_, row in found.items()} == {
        "1": "small",
        "2": None,
        "3": "large",
        "4": None,
    }
    assert all(decoded(row).fingerprint == asked(decoded(row)) for row in found.values())
    assert found["2"][names.FINGERPRINT] != found["3"][names.FINGERPRINT]


def test_a_route_asks_with_its_own_template(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("1", "short"), ("2", "long " * 10), ("3", None)]
    routes = [{"when": "prompt_chars < 10", "model": "small", "template": "Say {text}"}, {"model": "large"}]
    found = judged_texts(spark, tmp_path, rows, routes=routes)

    asked = {row[names.ID]: decoded(row) for row in found if reason(row) is None}
    assert {id_: (prompt.model, prompt.messages[0]["content"]) for id_, prompt in asked.items()} == {
        "1": ("small", "Say short"),
        "2": ("large", "long " * 10),
    }
    assert all(row[names.FINGERPRINT] == asked[row[names.ID]].fingerprint for row in found if row[names.ID] != "3")


def test_prompt_chars_counts_code_points(spark: SparkSession, tmp_path: Path) -> None:
    routes = [{"when": "prompt_chars = 3", "model": "three"}, {"model": "other"}]
    found = judged_texts(spark, tmp_path, [("1", "🎉🎉🎉"), ("2", "🎉🎉")], routes=routes)

    assert {row[names.ID]: body(row)["model"] for row in found} == {"1": "three", "2": "other"}


@MANY
@given(ids=st.lists(TEXT | st.sampled_from(["\u3000a", "a\x1c", "\x85", "a" * 512, "é" * 257]), min_size=40))
def test_ids_are_judged_as_the_reader_judges_them(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, ids: list[str]
) -> None:
    found = judged_texts(spark, tmp_path_factory.mktemp("ids"), [(id_, "text") for id_ in set(ids)])

    assert {row[names.ID]: reason(row) for row in found} == {
        id_: "invalid_id" if id_problem(id_) else None for id_ in set(ids)
    }


def test_the_value_is_json_of_one_line_for_any_reader(spark: SparkSession, tmp_path: Path) -> None:
    (row,) = judged_texts(spark, tmp_path, [("1", "a\nb\u2028c")], params={"größe": "🎉"})

    assert "\n" not in row[names.VALUE]
    assert json.loads(row[names.VALUE])["params"] == {"größe": "🎉"}
