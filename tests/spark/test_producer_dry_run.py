"""What a dry run says the rows will cost, against a sum by hand: no earlier result, no Kafka, no Postgres."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from producer.dryrun import dry_run
from producer.job import Outcome, last_line
from producer.pipeline import Reached
from tests.spark.producing import make_run, write_job, write_rows

pytestmark = pytest.mark.spark

MODELS = """
models:
  small:
    endpoints: [{base_url: "http://a/v1", api_key_env: NOT_SET_HERE}]
    price: {input_per_million: 1, output_per_million: 4}
  large:
    endpoints: [{base_url: "http://b/v1", api_key_env: NOT_SET_HERE}]
    price: {input_per_million: 10, output_per_million: 40}
"""
# 3 short rows, one of them Chinese (3 bytes a character), 2 long ones, and one that repeats a request.
ROWS = [("1", "a" * 95), ("2", "b" * 95), ("3", "评" * 30), ("4", "c" * 995), ("5", "d" * 995), ("6", "a" * 95)]


def test_the_cost_of_two_models_is_what_a_hand_adds_up(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(MODELS)
    write_rows(spark, tmp_path, ROWS, "id string, text string")
    routes = [{"when": "prompt_chars > 500", "model": "large"}]
    job = write_job(
        tmp_path,
        prompt={"system": "12345", "template": "{text}"},
        routes=routes,
        params={"max_tokens": 100},
        incremental=False,
    )
    run = make_run(job, {"MODELS_FILE": str(tmp_path / "models.yaml")}, dry_run=True)
    assert dry_run(spark, run, Reached(False, False)).rows == 5
    told = json.loads(last_line(Outcome(run), 1))["estimate"]

    small, large = 100 + 100 + 95, 1000 + 1000
    assert told["tokens"] == {
        "low": round((small + large) / 5),
        "point": round((small + large) / 4 + 5 * 50),
        "high": round((small + large) / 2.5 + 5 * 100),
    }
    assert told["usd"] == pytest.approx(
        {
            "low": (small / 5 * 1 + large / 5 * 10) / 1e6,
            "point": (small / 4 * 1 + 3 * 50 * 4 + large / 4 * 10 + 2 * 50 * 40) / 1e6,
            "high": (small / 2.5 * 1 + 3 * 100 * 4 + large / 2.5 * 10 + 2 * 100 * 40) / 1e6,
        },
        abs=1e-6,
    )
    assert told["basis"].endswith(f"prices of {tmp_path / 'models.yaml'}")
    assert told["confidence"] is None
