"""A second, stronger model for rows that the first one failed: which have gone on to it, by what is on record.

The rule. A row's request goes to the second model once its first request has failed for one of the listed reasons, or
once the second one is on record, unless the first one succeeded. So a row goes on in the run after the failure; the
second request is then the row's present one, with all that follows: asked once, skipped when it is finished, asked
again with `--retry-failed`, delivered at the backfill. It never falls back: the failure that made it go on makes way
in the table of results, but then the second request is there.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column, first_of
from producer.explain import spark_errors
from producer.failures import Failures
from producer.request import Request, fingerprint
from producer.run import Run
from schemas.job import Job
from schemas.shaping import Escalation

_GONE_ID = f"{names.PREFIX}gone_id"
_GONE_FROM = f"{names.PREFIX}gone_from"


def find(prepared: DataFrame, run: Run, request: Request) -> DataFrame | None:
    """Find the rows that have gone on among those prepared for the first model; kept on disk, None if none have."""
    job = run.file.job
    failures = Failures(run.settings.database.url, job.job, by_request=job.dedup, but_of=run.id)
    seconds = [route.escalate for route in job.routes if route.escalate]
    if not failures.any([second.model for second in seconds], sorted({r for s in seconds for r in s.after})):
        return None
    with spark_errors():
        asked = candidates(prepared, job, request)
        found = gone(asked.mapInArrow(failures.gone_on, asked.schema)).persist(StorageLevel.DISK_ONLY)
        if not found.isEmpty():
            return found
        found.unpersist()
    return None


def candidates(prepared: DataFrame, job: Job, request: Request) -> DataFrame:
    """Give the rows that may go on: id, first request, second request, and the reasons, one text, that make them."""
    reasons = _of_route(job, lambda second: fn.lit(",".join(second.after)))
    model = _of_route(job, lambda second: fn.lit(second.model))
    rows = prepared.where(column(names.VERDICT).isNull() & model.isNotNull())
    return rows.select(
        column(names.ID),
        column(names.FINGERPRINT),
        fingerprint(model, request).alias(names.SECOND),
        reasons.alias(names.REASONS),
    )


def gone(found: DataFrame) -> DataFrame:
    """Name what `applied` needs of the candidates that have gone on, each once."""
    return found.select(column(names.ID).alias(_GONE_ID), column(names.FINGERPRINT).alias(_GONE_FROM)).distinct()


def applied(rows: DataFrame, job: Job, request: Request, found: DataFrame | None) -> DataFrame:
    """Say of each row whether it has gone on, and let those that have ask the second model."""
    if found is None:
        return rows.withColumn(names.ESCALATED, fn.lit(False))
    same = (column(names.ID) == column(_GONE_ID)) & (column(names.FINGERPRINT) == column(_GONE_FROM))
    rows = rows.join(found, same, "left").withColumn(names.ESCALATED, column(_GONE_ID).isNotNull())
    second = _of_route(job, lambda second: fn.lit(second.model))
    model = fn.when(column(names.ESCALATED), second).otherwise(column(names.MODEL))
    rows = rows.withColumn(names.MODEL, model).drop(_GONE_ID, _GONE_FROM)
    return rows.withColumn(names.FINGERPRINT, fingerprint(column(names.MODEL), request))


def _of_route(job: Job, of: Callable[[Escalation], Column]) -> Column:
    cases = [(column(names.ROUTE) == n, of(r.escalate)) for n, r in enumerate(job.routes) if r.escalate]
    return first_of(cases).cast("string")
