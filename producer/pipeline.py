"""The main path: read, prepare, settle what repeats, publish, write what was rejected, check the sum."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from producer import distinct, duplicates, rejects, request_table, sink, writer
from producer.counts import Counts, counted, judged_counts
from producer.errors import RunFailedError
from producer.explain import spark_errors
from producer.prompts import prepare
from producer.request import Request
from producer.run import Judged, Run
from producer.source import read

_CHANGED = "the source may have changed while it was read: run again"


@dataclass(frozen=True, slots=True)
class Reached:
    """What the services said before anything was read."""

    topic_exists: bool
    any_finished: bool


def reach(run: Run) -> Reached:
    """Ask Kafka for the topic and Postgres for finished rows, as far as the run needs them.

    Raises `UnreachableError` within half a minute, or `WrongJobError`.
    """
    job = run.file.job
    asks_kafka = job.mode == "kafka" and not run.arguments.dry_run
    exists = asks_kafka and sink.check_topic(run.settings.kafka, job.prompts_topic)
    needs_ledger = job.incremental or not run.arguments.dry_run
    return Reached(exists, any_finished=needs_ledger and run.ledger.has_finished())


def publish(spark: SparkSession, run: Run, reached: Reached) -> None:
    """Carry out one run; its counts are in `run.counts` as far as they are known, after an error too.

    Raises a `ProducerError` that names the place and the next step.
    """
    job = run.file.job
    with judge(spark, run) as judged:
        _keep_requests(spark, judged, run)
        if job.mode == "kafka" and not reached.topic_exists:
            sink.make_topic(run.settings.kafka, job.prompts_topic, run.settings.topics.partitions)
        run.ledger.start(run.id, job)
        carry_out = _answer if job.mode == "direct" else _send
        try:
            carry_out(judged, run, looks_up=job.incremental and reached.any_finished)
        finally:
            run.ledger.count(run.id, run.counts)
        _write_rejects(judged, run)
    if problem := run.counts.imbalance():
        raise RunFailedError(f"{problem}; {_CHANGED}")


def judge(spark: SparkSession, run: Run) -> Judged:
    """Read and prepare all rows; of these only the search for repeated ids and requests is run here.

    The usual table has neither; then no row is shuffled, and each goes straight to the sink.
    """
    job = run.file.job
    table = read(spark, run.file, run.arguments.limit)
    request = Request.of(run.file, run.id, run.started)
    rows = duplicates.unsettled(prepare(table, job, request))
    repeated = duplicates.repeated_ids(table.rows, job.id).persist()
    with spark_errors():
        any_repeats = not repeated.isEmpty()
    if any_repeats:
        alone = prepare(replace(table, rows=duplicates.without(table.rows, job.id, repeated)), job, request)
        shared = prepare(replace(table, rows=duplicates.only(table.rows, job.id, repeated)), job, request)
        rows = duplicates.unsettled(alone).unionByName(duplicates.settled(shared, job.dedup))
    judged = Judged(rows, table, cached=(repeated, table.rows))
    return _deduplicated(spark, judged, run) if job.dedup else judged


def _deduplicated(spark: SparkSession, judged: Judged, run: Run) -> Judged:
    """Let one row lead for each request; ids and fingerprints are kept on disk, since they are needed twice."""
    with spark_errors():
        asks = distinct.asks(judged.rows).persist(StorageLevel.DISK_ONLY)
        cached = (*judged.cached, asks)
        if not distinct.any_repeats(asks):
            return replace(judged, cached=cached, requests=distinct.all_lead(asks), distinct=asks.count())
        requests = distinct.requests(asks, request_table.before(spark, run)).persist(StorageLevel.DISK_ONLY)
        asked, others = distinct.leads_and_followers(requests)
    rows = distinct.without_followers(judged.rows, requests) if others else judged.rows
    return replace(judged, rows=rows, cached=(*cached, requests), requests=requests, distinct=asked)


def _keep_requests(spark: SparkSession, judged: Judged, run: Run) -> None:
    """Before anything is published: from its first message on, an answer finds all its rows."""
    with spark_errors():
        if judged.requests is None:
            request_table.forget(spark, run)
        else:
            request_table.write(spark, run, judged.requests)


def _send(judged: Judged, run: Run, looks_up: bool) -> None:
    """Publish; counts of an unfinished run hold what the tasks that did finish published."""
    rows, observation = counted(judged.rows)
    topic = run.file.job.prompts_topic
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        tally = Path(folder) / "tally.json"
        lookup = run.ledger.finished if looks_up else None
        try:
            with spark_errors():
                writer.publish(
                    rows, writer.Publication(run.settings.kafka, topic, tally, lookup, run.settings.tracing)
                )
        finally:
            delivered = writer.read_tally(tally)
            run.counts = Counts(published=delivered.acked, skipped=delivered.skipped)
    run.counts = judged_counts(observation.get, published=delivered.acked, skipped=delivered.skipped)
    _check_requests(judged, int(observation.get["passing"]))


def _answer(judged: Judged, run: Run, looks_up: bool) -> None:
    """Answer the rows inside Spark; the run is over with it, whatever has ended it."""
    # Only here: whoever publishes needs nothing of a worker.
    from producer import answering

    try:
        _check_requests(judged, answering.answer(judged, run, looks_up))
    finally:
        run.ledger.end(run.id)


def _check_requests(judged: Judged, passing: int) -> None:
    if judged.distinct not in (None, passing):
        raise RunFailedError(f"{judged.distinct} requests were found, then {passing}; {_CHANGED}")


def _write_rejects(judged: Judged, run: Run) -> None:
    if not run.counts.rejected:
        return
    path = rejects.folder(run.file, run.id)
    with spark_errors():
        written = rejects.write(rejects.rejected(judged.rows, judged.table), path)
    if written != run.counts.rejected:
        raise RunFailedError(
            f"{run.counts.rejected} rows were rejected, but {written} were written to {path}; {_CHANGED}"
        )
