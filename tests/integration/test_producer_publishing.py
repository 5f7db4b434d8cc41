"""The producer against a real Kafka and a real Postgres."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from producer.dryrun import dry_run
from producer.errors import UnreachableError, WrongJobError
from producer.pipeline import publish, reach
from producer.run import Run
from schemas.message import Prompt, decode
from tests.services import KafkaService, PostgresService
from tests.spark.producing import make_run, write_job, write_rows
from tests.spark.reading_topics import make_topic, read_all
from tests.spark_session import spark, spark_packages

__all__ = ["spark", "spark_packages"]

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROWS = [(f"r-{number}", f"text {number} 🎉") for number in range(500)]


@dataclass
class Place:
    """A folder with a source, and services of which this test has a job name and a database to itself."""

    spark: SparkSession
    folder: Path
    servers: str
    database: str
    job: str

    @property
    def environ(self) -> dict[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": self.servers, "DATABASE_URL": self.database}

    def run(self, *, changes: dict[str, Any] | None = None, no_canary: bool = True, **arguments: Any) -> Run:
        """Make a run; no worker is running here, so it publishes all rows at once."""
        path = write_job(self.folder, job=self.job, **(changes or {}))
        return make_run(path, self.environ, no_canary=no_canary, **arguments)

    def publish(self, **options: Any) -> Run:
        run = self.run(**options)
        publish(self.spark, run, reach(run))
        return run

    def topic(self) -> list[Prompt]:
        found = []
        for message in read_all(self.servers, f"headrace.prompts.{self.job}"):
            prompt = decode(message.key(), message.value() or b"")
            assert isinstance(prompt, Prompt), prompt
            found.append(prompt)
        return found

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def finish(self, prompts: list[Prompt], status: str) -> None:
        for prompt in prompts:
            self.sql(
                "INSERT INTO headrace.results (job, id, fingerprint, status) VALUES (%s, %s, %s, %s)",
                prompt.job,
                prompt.id,
                prompt.fingerprint,
                status,
            )


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, kafka: KafkaService, database: str) -> Place:
    write_rows(spark, tmp_path, ROWS, "id string, text string")
    return Place(spark, tmp_path, kafka.bootstrap_servers, database, f"job-{uuid.uuid4().hex[:8]}")


def test_every_row_arrives_once_under_its_id(place: Place) -> None:
    run = place.publish(changes={"prompt": {"template": "Review: {text}\nLabel:", "system": "Label."}})
    found = place.topic()

    assert (run.counts.read, run.counts.published) == (500, 500)
    assert {prompt.id: prompt.messages[1]["content"] for prompt in found} == {
        id_: f"Review: {text}\nLabel:" for id_, text in ROWS
    }
    assert len(found) == 500
    assert {(prompt.job, prompt.run) for prompt in found} == {(place.job, run.id)}


def test_the_topic_is_made_with_our_settings_and_keys_spread_by_murmur2(place: Place) -> None:
    run = place.run()
    publish(place.spark, run, reach(run))
    messages = read_all(place.servers, f"headrace.prompts.{place.job}")
    held = dict.fromkeys(range(12), 0)
    for message in messages:
        held[message.partition() or 0] += 1
        assert message.partition() == murmur2(message.key() or b"") % 12

    assert len(messages) == 500
    assert max(held.values()) <= 1.5 * 500 / 12


def test_a_dirty_table_adds_up_and_its_rejects_are_kept(place: Place) -> None:
    rows = [*ROWS, ("r-0", "text 0 🎉"), ("r-1", "other"), (None, "x"), ("blank", " "), ("big", "🙂" * 300_000)]
    write_rows(place.spark, place.folder, rows, "id string, text string")

    run = place.publish(changes={"priority": 3, "budget": {"usd": 2.5, "tokens": 1000}})

    assert run.counts.rejected_by_reason == {
        "null_id": 1,
        "blank_prompt": 1,
        "message_too_large": 1,
        "conflicting_id": 2,
    }
    assert (run.counts.read, run.counts.published, run.counts.rejected, run.counts.deduplicated) == (505, 499, 5, 1)
    assert sorted(prompt.id for prompt in place.topic()) == sorted({id_ for id_, _ in ROWS} - {"r-1"})
    rejects = place.spark.read.parquet(str(place.folder / "labelled_rejects")).collect()
    assert sorted(row["reject_reason"] for row in rejects) == sorted(
        ["null_id", "blank_prompt", "message_too_large", "conflicting_id", "conflicting_id"]
    )
    (recorded,) = place.sql(
        "SELECT run, state, topic, read, rejected, deduplicated, skipped, published, budget_usd, budget_tokens,"
        " priority FROM headrace.jobs WHERE job = %s",
        place.job,
    )
    assert recorded[:3] == (run.id, "running", f"headrace.prompts.{place.job}")
    assert [float(value) for value in recorded[3:]] == [505, 5, 1, 0, 499, 2.5, 1000, 3]


def test_rows_with_a_finished_result_are_skipped(place: Place) -> None:
    assert place.publish().counts.skipped == 0
    first = place.topic()
    place.finish(first[:100], "succeeded")
    place.finish(first[100:150], "failed")
    place.finish(first[150:160], "claimed")

    assert place.run().counts.read == 0
    again = place.publish().counts
    assert (again.published, again.skipped) == (350, 150)
    failed_too = place.publish(retry_failed=True).counts
    assert (failed_too.published, failed_too.skipped) == (400, 100)
    all_rows = place.publish(changes={"incremental": False}).counts
    assert (all_rows.published, all_rows.skipped) == (500, 0)
    changed = place.publish(changes={"params": {"temperature": 1}}).counts
    assert (changed.published, changed.skipped) == (500, 0)


@pytest.mark.parametrize("dedup", [True, False])
def test_what_was_cancelled_is_asked_again_without_being_told_to(place: Place, dedup: bool) -> None:
    write_rows(place.spark, place.folder, ROWS[:6], "id string, text string")
    place.publish(changes={"dedup": dedup})
    first = place.topic()
    place.finish(first[:4], "failed")
    place.sql(
        "UPDATE headrace.results SET reason = 'cancelled' WHERE job = %s AND id = ANY (%s)",
        place.job,
        [prompt.id for prompt in first[:3]],
    )

    again = place.publish(changes={"dedup": dedup}).counts
    assert (again.published, again.skipped) == (5, 1)


def test_a_request_that_was_ever_answered_is_asked_by_nobody(place: Place) -> None:
    rows = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"), ("e", "y")]
    write_rows(place.spark, place.folder, rows, "id string, text string")
    first = place.publish().counts
    assert (first.read, first.published, first.deduplicated, first.skipped) == (5, 3, 2, 0)
    prompts = {prompt.id: prompt for prompt in place.topic()}
    assert sorted(prompts) == ["a", "c", "d"]

    place.finish([prompts["a"], prompts["d"]], "succeeded")
    place.finish([prompts["c"]], "failed")
    again = place.publish().counts
    assert (again.published, again.skipped, again.deduplicated) == (0, 3, 2)
    failed_too = place.publish(retry_failed=True).counts
    assert (failed_too.published, failed_too.skipped, failed_too.deduplicated) == (1, 2, 2)

    # The row that was asked asks something else now, and its old answer makes way in the table of results.
    place.sql(
        "UPDATE headrace.results SET fingerprint = 'new', status = 'claimed' WHERE job = %s AND id = 'a'", place.job
    )
    rows = [("0", "x"), ("a", "new"), ("b", "x"), ("c", "y"), ("d", "z"), ("e", "z")]
    write_rows(place.spark, place.folder, rows, "id string, text string")
    moved = place.publish().counts
    assert (moved.read, moved.published, moved.skipped, moved.deduplicated) == (6, 1, 3, 2)
    assert [prompt.id for prompt in place.topic()].count("a") == 2


def ends(place: Place, **reasons: str | None) -> None:
    """Let the newest message of each id end, as a worker would: succeeded without a reason, else failed."""
    newest = {prompt.id: prompt for prompt in place.topic()}
    for id_, reason in reasons.items():
        place.sql(
            "INSERT INTO headrace.results (job, id, fingerprint, status, reason, model, run)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (job, id) DO UPDATE SET (fingerprint, status, reason,"
            " model, run) = (excluded.fingerprint, excluded.status, excluded.reason, excluded.model, excluded.run)",
            place.job,
            id_,
            newest[id_].fingerprint,
            "failed" if reason else "succeeded",
            reason,
            newest[id_].model,
            newest[id_].run,
        )


@pytest.mark.parametrize("dedup", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_row_that_the_small_model_failed_goes_on_to_the_large_one_once(place: Place, dedup: bool) -> None:
    rows = [(id_, f"text {id_}") for id_ in "abcde"] + [("f", "text a")]
    write_rows(place.spark, place.folder, rows, "id string, text string")
    escalate = {"model": "large", "after": ["invalid_output", "truncated"]}
    routes = [{"when": "text = 'text e'", "model": "large"}, {"model": "small", "escalate": escalate}]
    changes: dict[str, Any] = {"routes": routes, "dedup": dedup}
    alone = 0 if dedup else 1
    first = place.publish(changes=changes).counts
    assert (first.published, first.tiers["large"]["rows"]) == (5 + alone, 1)

    follower = {} if dedup else {"f": None}
    ends(place, a="invalid_output", b="truncated", c="timeout", d=None, e="invalid_output", **follower)
    second = place.publish(changes=changes).counts
    newest = {prompt.id: prompt.model for prompt in place.topic()}
    assert (second.published, second.skipped) == (2, 3 + alone)
    assert newest == {"a": "large", "b": "large", "c": "small", "d": "small", "e": "large"} | (
        {} if dedup else {"f": "small"}
    )
    assert second.tiers == {
        "large": {"rows": 3, "share": 0.6 if dedup else 0.5, "escalated": 2},
        "small": {"rows": 2 + alone, "share": 0.4 if dedup else 0.5, "escalated": 0},
    }

    # Nothing falls back while the large model is asked, nor when it fails too.
    ends(place, a=None, b="truncated")
    place.sql("UPDATE headrace.results SET status = 'claimed', reason = NULL WHERE job = %s AND id = 'b'", place.job)
    assert place.publish(changes=changes).counts.published == 1
    ends(place, b="invalid_output")
    assert place.publish(changes=changes).counts.published == 0
    retried = place.publish(changes=changes, retry_failed=True).counts
    assert retried.published == 3
    assert [prompt.model for prompt in place.topic() if prompt.id == "b"] == ["small", *["large"] * 3]


def test_without_dedup_each_row_is_asked_for_itself(place: Place) -> None:
    write_rows(place.spark, place.folder, [("a", "x"), ("b", "x")], "id string, text string")
    assert place.publish().counts.published == 1
    assert (place.folder / "labelled_requests").exists()
    place.finish(place.topic(), "succeeded")

    alone = place.publish(changes={"dedup": False}).counts
    assert (alone.published, alone.skipped, alone.deduplicated) == (1, 1, 0)
    assert sorted(prompt.id for prompt in place.topic()) == ["a", "b"]
    assert not list((place.folder / "labelled_requests").iterdir())


def test_only_so_many_rows_are_read(place: Place) -> None:
    counts = place.publish(limit=7).counts

    assert (counts.read, counts.published) == (7, 7)
    assert len(place.topic()) == 7


def test_no_rows_are_no_failure(place: Place) -> None:
    for where in ("1 = 0", "text = 'none of these'"):
        counts = place.publish(changes={"source": {"format": "parquet", "path": "rows", "where": where}}).counts
        assert (counts.read, counts.published) == (0, 0)


def test_a_dry_run_counts_and_shows_and_leaves_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.publish()
    place.finish(place.topic()[:100], "succeeded")
    write_rows(place.spark, place.folder, [*ROWS, ("new", "x\x1b[31m"), (None, "x")], "id string, text string")
    run = place.run(dry_run=True)

    estimate = dry_run(place.spark, run, reach(run))

    assert (run.counts.read, run.counts.rejected, run.counts.skipped, estimate.rows) == (502, 1, 100, 401)
    assert run.counts.published == 0
    kept = [text for _, text in ROWS]
    assert estimate.prompt_chars < sum(map(len, kept)) + 6
    assert estimate.prompt_tokens[0] < estimate.prompt_tokens[1]
    assert len(estimate.samples) == 3
    assert run.forecast is not None
    assert run.forecast.rows == 401
    assert "a guess" in run.forecast.basis
    assert "\x1b" not in "".join(estimate.samples)
    assert len(place.topic()) == 500
    assert not (place.folder / "labelled_rejects").exists()
    assert len(list((place.folder / "labelled_requests").iterdir())) == 1
    assert place.sql("SELECT count(*) FROM headrace.jobs WHERE job = %s", place.job) == [(1,)]


def test_a_compacted_topic_is_refused(place: Place) -> None:
    make_topic(place.servers, f"headrace.prompts.{place.job}", 1, {"cleanup.policy": "compact"})
    with pytest.raises(WrongJobError, match="is compacted"):
        place.publish()
    assert place.sql("SELECT count(*) FROM headrace.jobs WHERE job = %s", place.job) == [(0,)]


def test_a_topic_that_exists_is_used_as_it_is(place: Place) -> None:
    make_topic(place.servers, "headrace.prompts.mine-" + place.job, 2)
    run = place.publish(changes={"topic": "headrace.prompts.mine-" + place.job})

    assert run.counts.published == 500
    assert {m.partition() for m in read_all(place.servers, "headrace.prompts.mine-" + place.job)} == {0, 1}


def test_services_that_do_not_answer_are_named(place: Place, postgres: PostgresService) -> None:
    run = place.run()
    run.settings.kafka.__dict__["bootstrap_servers"] = "127.0.0.1:1"
    with pytest.raises(UnreachableError, match=r"kafka: 127\.0\.0\.1:1 gave no answer"):
        publish(place.spark, run, reach(run))

    place.database = "postgresql://headrace:hunter2@127.0.0.1:1/x"
    with pytest.raises(UnreachableError, match="database: ") as raised:
        place.publish()
    assert "hunter2" not in str(raised.value)

    place.database = postgres.new_database()
    with pytest.raises(WrongJobError, match="run `headrace migrate`"):
        place.publish()


def test_no_secret_reaches_sparks_plans(place: Place) -> None:
    place.database += "?application_name=hunter2"
    place.publish()
    place.finish(place.topic()[:1], "succeeded")
    assert place.publish().counts.skipped == 1

    executions = place.spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(number).physicalPlanDescription() for number in range(executions.size())]
    assert any("__headrace_value" in plan for plan in plans)
    assert not any("hunter2" in plan or place.servers in plan for plan in plans)


def murmur2(key: bytes) -> int:
    """Hash as Kafka's Java client does, positive."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    value = (0x9747B28C ^ len(key)) & mask
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        part = int.from_bytes(key[at : at + 4], "little") * factor & mask
        part = (part ^ part >> 24) * factor & mask
        value = (value * factor & mask) ^ part
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return (value ^ value >> 15) & 0x7FFFFFFF
