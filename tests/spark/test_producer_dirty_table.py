"""The dirty table: every fault at once, each row with its fate, and a sum that is exact."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from producer import columns as names
from producer.counts import counted, judged_counts
from producer.judging import judge
from producer.rejects import folder, rejected, write
from schemas.settings import SettingsError
from schemas.topics import MAX_MESSAGE_BYTES
from tests.spark.producing import body, judged, make_run, write_job

pytestmark = pytest.mark.spark

PAD = "Café &amp; co., in one sentence"
# Each line of the file, and what becomes of it: the prompt that is published, or why there is none.
LINES: list[tuple[str, str]] = [
    ('{"id": "a1", "text": "<p>Good\\u00a0 value</p>"}', "> Good value"),
    ('{"id": "a2", "text": "e\\u0301t\\u00e9 in Spain"}', "> été in Spain"),
    ('{"id": "a3", "text": "bell\\u0007 and \\u0000 nul"}', "> bell and nul"),
    (json.dumps({"id": "a4", "text": f"{PAD} {'x' * 100}"}), f"> {PAD.replace('&amp;', '&')} xxxxxxxx"),
    ('{"id": "a5", "text": "{id} {{text}} stays"}', "> {id} {{text}} stays"),
    ('{"id": 1, "text": "the number one"}', "> the number one"),
    ('{"id": "1", "text": "the number one"}', "deduplicated"),
    ('{"id": 1.0, "text": "one with a dot"}', "> one with a dot"),
    ('{"id": "01", "text": "one with a zero"}', "> one with a zero"),
    ('{"id": "b1", "text": "two answers?"}', "conflicting_id: 2 rows with this id ask different things"),
    ('{"id": "b1", "text": "two questions?"}', "conflicting_id: 2 rows with this id ask different things"),
    ('{"id": "b2", "text": "the  number one "}', "deduplicated"),
    ('{"id": null, "text": "has no id"}', "null_id"),
    ('{"text": "has no id"}', "null_id"),
    ('{"id": "", "text": "has no id"}', "invalid_id: is empty"),
    ('{"id": " c1", "text": "has a space"}', "invalid_id: has surrounding white space"),
    ('{"id": "c\\u00002", "text": "has a nul"}', "invalid_id: holds U+0000"),
    (json.dumps({"id": "c" * 513, "text": "a long id"}), "invalid_id: is longer than 512 bytes"),
    ('{"id": "d1", "text": null}', "null_column: text"),
    ('{"id": "d2", "text": "<br>"}', "too_short: text: 0 characters"),
    ('{"id": "d3", "text": "  "}', "too_short: text: 0 characters"),
    ('{"id": "d4", "text": "ok"}', "too_short: text: 2 characters"),
    ('{"id": "d5", "text": "这是中文评论"}', "other_language: 0 % Latin"),
    ('{"id": "e1", "text": "BUY NOW"}', "ruled_out: shouting"),
    ('{"id": "e2", "text": "12345"}', "no_rule"),
    ('{"id": "f1", "text": broken', "unreadable_row"),
]
HUGE = json.dumps({"id": "g1", "text": "fits", "title": "🙂" * 300_000}, ensure_ascii=False)
JOB: dict[str, Any] = {
    "source": {"format": "jsonl", "path": "rows.jsonl"},
    "clean": {
        "columns": ["text"],
        "strip_html": True,
        "strip_control": True,
        "normalize": "NFC",
        "collapse_whitespace": True,
        "min_chars": 3,
        "max_tokens": 10,
    },
    "rules": [
        {"name": "shouting", "when": "text = upper(text) AND text RLIKE '[A-Z]'", "send": False},
        {"name": "letters", "when": "text IS NULL OR text RLIKE '[^0-9]'"},
    ],
    "language": {"scripts": ["Latin"], "min_share": 0.5},
    "prompt": {"template": "> {text}"},
}


def test_every_row_of_the_dirty_table_has_its_fate(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(line for line, _ in LINES), encoding="utf-8")
    run = make_run(write_job(tmp_path, **JOB))
    with judge(spark, run) as found:
        rows, observation = counted(found.rows, run.file.job)
        published = [body(row)["prompt"] for row in rows.collect()]
        written = write(rejected(found.rows, found.table), folder(run.file, run.id))
    counts = judged_counts(observation.get, len(published), skipped=0)

    fates = [fate for _, fate in LINES]
    assert sorted(published) == sorted(fate for fate in fates if fate.startswith("> "))
    table = spark.read.parquet(str(tmp_path / "labelled_rejects")).collect()
    told = [": ".join(filter(None, (row["reject_reason"], row["reject_detail"]))) for row in table]
    assert sorted(told) == sorted(fate for fate in fates if not fate.startswith(("> ", "deduplicated")))
    assert counts.rejected_by_reason == Counter(fate.partition(":")[0] for fate in told)
    assert (counts.read, counts.rejected, counts.deduplicated) == (len(LINES), written, 2)
    assert counts.truncated == 1
    assert counts.imbalance() is None


def test_a_huge_text_is_rejected_by_its_size(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(HUGE, encoding="utf-8")
    job = write_job(tmp_path, source=JOB["source"], prompt={"template": "{text} {title}"})
    (row,) = judged(spark, job)

    reason, detail = row[names.VERDICT]
    assert reason == "message_too_large"
    assert int(detail.split()[0]) > MAX_MESSAGE_BYTES


@pytest.mark.parametrize("template", ["{text", "{}", "no column", "{0.__class__}", "{{text}}"])
def test_a_bad_template_is_refused_before_a_row_is_judged(spark: SparkSession, tmp_path: Path, template: str) -> None:
    (tmp_path / "rows.jsonl").write_text(HUGE, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"prompt\.template: "):
        judged(spark, write_job(tmp_path, source=JOB["source"], prompt={"template": template}))
