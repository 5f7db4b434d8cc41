"""A cascade with a real fleet: what the small model cuts short, the large one answers, once, and the table shows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr
from pyspark.sql import SparkSession

from backfill.counts import Counts as Joined
from backfill.run import backfill
from backfill.settings import read_job
from backfill.source import database_session
from producer.counts import Counts
from producer.pipeline import publish, reach
from tests.fleet import fleet, wait_for
from tests.services import KafkaService, PostgresService
from tests.simulated import simulated
from tests.spark.producing import make_run, write_job, write_rows
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

# One in ten is too much for the small model, and each of these stands in the table twice.
ROWS = [(f"r-{n}", f"{'hard' if n % 10 == 0 else 'easy'} {n % 200}") for n in range(210)]
TOO_MUCH = {"match": {"model": "small", "prompt_contains": "hard"}, "finish_reason": "length"}


def test_what_the_small_model_failed_is_asked_of_the_large_one_once(
    spark: SparkSession, kafka: KafkaService, postgres: PostgresService, tmp_path: Path
) -> None:
    write_rows(spark, tmp_path, ROWS, "id string, text string")
    with simulated([TOO_MUCH]) as endpoint:
        served = {m: {"endpoints": [{"base_url": endpoint.base_url, "model": m}]} for m in ("small", "large")}
        (tmp_path / "models.yaml").write_text(yaml.safe_dump({"models": served}))
        settings = {"MODELS_FILE": str(tmp_path / "models.yaml"), "LLM_MODEL": "small", "LLM_BASE_URL": ""}
        with fleet(kafka.bootstrap_servers, postgres.new_database(), tmp_path, endpoint.base_url, **settings) as made:
            made.start(1)
            job = write_job(tmp_path, job=made.job, routes=[{"model": "small", "escalate": {"model": "large"}}])
            environ = {"KAFKA_BOOTSTRAP_SERVERS": made.kafka, "DATABASE_URL": made.database}

            def ask(rows: dict[tuple[str, str | None], int]) -> Counts:
                run = make_run(job, environ, no_canary=True)
                publish(spark, run, reach(run))
                wait_for(lambda: made.statuses() == rows, 120, lambda: str(made.statuses()))
                return run.counts

            def join() -> Joined:
                file, counts = read_job(job), Joined()
                with database_session(SecretStr(made.database), made.job, file.target_name) as held:
                    backfill(spark, file, held, counts)
                return counts

            first = ask({("succeeded", None): 180, ("failed", "truncated"): 20})
            assert (first.published, first.deduplicated) == (200, 10)
            assert join().failed == 21
            second = ask({("succeeded", None): 200})
            assert (second.published, second.skipped) == (20, 180)
            assert second.tiers["large"] == {"rows": 20, "share": 0.1, "escalated": 20}
            assert join().failed == 0
            third = ask({("succeeded", None): 200})
            assert (third.published, third.skipped, third.tiers) == (0, 200, second.tiers)
            assert join().written == 0
            calls = Counter(call["model"] for call in made.rows("attempts"))

    table = spark.read.parquet(str(tmp_path / "labelled")).collect()
    assert calls == {"small": 200, "large": 20}
    assert len(table) == len(ROWS)
    assert {row["llm_model"] for row in table if row["text"].startswith("hard")} == {"large"}
    assert {row["llm_model"] for row in table if row["text"].startswith("easy")} == {"small"}
    assert {row["llm_status"] for row in table} == {"succeeded"}
