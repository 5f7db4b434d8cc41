"""How a row comes to its id."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from schemas import ids, sources
from schemas.documents import validate_document
from schemas.ids import DerivedId
from schemas.job import Job, Source
from schemas.settings import SettingsError

LEAST: dict[str, Any] = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "data/reviews"},
    "prompt": {"template": "Review: {text}"},
    "target": {"format": "delta", "path": "warehouse/reviews"},
}


def test_a_column_is_the_id_as_it_is() -> None:
    job = validate_document("reviews.yaml", LEAST | {"id": "review_id"}, Job)
    assert ids.columns(job.id) == ["review_id"]
    assert ids.sql("re`view.id", "t.") == "CAST(t.`re``view.id` AS STRING)"


def test_the_written_rule_of_derived_ids() -> None:
    job = validate_document("reviews.yaml", LEAST | {"id": {"from": ["shop", "text"]}}, Job)
    assert isinstance(job.id, DerivedId)
    assert ids.columns(job.id) == ["shop", "text"]
    assert ids.derived(["ab", "é"]) == sha256(b"2:ab2:\xc3\xa9").hexdigest()
    assert ids.derived(["ab", None]) == ids.derived(["ab", ""]) == sha256(b"2:ab0:").hexdigest()
    assert ids.derived([None, ""]) is None
    assert ids.derived(["ab", "c"]) != ids.derived(["a", "bc"])


@pytest.mark.parametrize(
    "id_", [None, 7, "", [], {"from": []}, {"from": [""]}, {"columns": ["a"]}, {"from": ["a"], "of": 1}]
)
def test_without_a_stable_id_nothing_starts(id_: object) -> None:
    with pytest.raises(SettingsError) as raised:
        validate_document("reviews.yaml", LEAST | {"id": id_}, Job)
    assert raised.value.problems[0].startswith(("id: must name a column", "id.derived."))


@pytest.mark.parametrize("name", ["uuid", "monotonically_increasing_id", "SPARK_PARTITION_ID "])
def test_a_query_that_numbers_rows_anew_in_each_run_is_refused(name: str) -> None:
    (problem,) = sources.problems(Source(format="table", query=f"SELECT {name}() AS id, text FROM reviews"))
    assert problem.startswith("source.query: ")
    assert not list(sources.problems(Source(format="table", query="SELECT uuid AS id, text FROM reviews")))
