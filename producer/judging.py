"""All rows with their verdicts, and what repeats among them settled, before any of them is sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from producer import cascade, distinct, duplicates, request_table
from producer.counts import counted
from producer.explain import spark_errors
from producer.prompts import prepare
from producer.request import Request
from producer.run import Judged, Run
from producer.source import Table, read
from schemas import ids, requests_table

Prepared: TypeAlias = Callable[[Table], DataFrame]


@contextmanager
def judge(spark: SparkSession, run: Run) -> Iterator[Judged]:
    """Read and prepare all rows; of these only the search for repeated ids and requests is run here.

    The usual table has neither; then no row is shuffled, and each goes straight to the sink. What is kept for it goes
    with the block.
    """
    job = run.file.job
    table = read(spark, run.file, run.arguments.limit)
    request = Request.of(run.file, run.id, run.started)
    first = prepare(table, job, request)
    with ExitStack() as kept:
        kept.callback(table.rows.unpersist)
        gone_on = cascade.find(first, run, request) if job.escalates else None
        if gone_on is not None:
            kept.callback(gone_on.unpersist)
        prepared = partial(prepare, job=job, request=request, gone_on=gone_on)
        judged = Judged(duplicates.unsettled(first if gone_on is None else prepared(table)), table)
        yield _judged(spark, judged, run, prepared, kept)


def _judged(spark: SparkSession, judged: Judged, run: Run, prepared: Prepared, kept: ExitStack) -> Judged:
    """Settle what repeats; who repeats is told by what is kept of each row, so the source is not read for it."""
    job = run.file.job
    if not (job.dedup or run.has_canary):
        return _with_settled_ids(judged, run, prepared, kept)
    judged = _keyed(judged, run, kept)
    assert judged.asks is not None
    with spark_errors():
        looked_at = (requests_table.ID, requests_table.FINGERPRINT) if job.dedup else (requests_table.ID,)
        found = distinct.repeating(judged.asks, *looked_at)
    if requests_table.ID in found:
        judged = _keyed(_with_settled_ids(judged, run, prepared, kept), run, kept)
    return _deduplicated(spark, judged, run, found, kept) if job.dedup else judged


def _with_settled_ids(judged: Judged, run: Run, prepared: Prepared, kept: ExitStack) -> Judged:
    id_, table = fn.expr(ids.sql(run.file.job.id)), judged.table
    repeated = duplicates.repeated_ids(table.rows, id_).persist()
    kept.callback(repeated.unpersist)
    with spark_errors():
        if repeated.isEmpty():
            return judged
    alone = prepared(replace(table, rows=duplicates.without(table.rows, id_, repeated)))
    shared = prepared(replace(table, rows=duplicates.only(table.rows, id_, repeated)))
    rows = duplicates.unsettled(alone).unionByName(duplicates.settled(shared, run.file.job.dedup))
    return replace(judged, rows=rows)


def _keyed(judged: Judged, run: Run, kept: ExitStack) -> Judged:
    """Keep on disk who asks what, since it is needed more than once, and count all rows on the way."""
    with spark_errors():
        passing, seen = counted(judged.rows, run.file.job)
        asks, draft = distinct.asks(passing), None
        if request_table.drafts(run):
            draft = request_table.draft(run, asks)
            kept.callback(draft.discard)
            asks = draft.rows
        else:
            asks = asks.persist(StorageLevel.DISK_ONLY)
            kept.callback(asks.unpersist)
        return replace(judged, asks=asks, seen=seen, distinct=asks.count(), draft=draft)


def _deduplicated(spark: SparkSession, judged: Judged, run: Run, found: Collection[str], kept: ExitStack) -> Judged:
    """Let one row lead for each request."""
    assert judged.asks is not None
    asks = judged.asks
    with spark_errors():
        # Rows of one id asked the same more than once; by now one of them is left.
        if not found or (requests_table.ID in found and not distinct.repeating(asks, requests_table.FINGERPRINT)):
            return replace(judged, requests=asks)
        requests = distinct.requests(asks, request_table.before(spark, run)).persist(StorageLevel.DISK_ONLY)
        kept.callback(requests.unpersist)
        asked, others = distinct.leads_and_followers(requests)
    rows = distinct.without_followers(judged.rows, requests) if others else judged.rows
    return replace(judged, rows=rows, requests=requests, distinct=asked, draft=None if others else judged.draft)
