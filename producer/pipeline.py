"""The main path: read, prepare, settle what repeats, publish, write what was rejected, check the sum."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession

from producer import columns as names
from producer import duplicates, preflight, rejects, request_table, sink
from producer.chain import ByKafka, Chain
from producer.choosing import Plan, choose
from producer.counts import Counts, counted, judged_counts, publishable
from producer.deliver import deliver
from producer.errors import CanaryError, ProducerError, RunFailedError, StoppedError
from producer.explain import spark_errors
from producer.judging import judge
from producer.lookup import all_finished
from producer.prompts import prepare
from producer.request import Request
from producer.run import Judged, Run
from producer.source import read
from producer.trial import Trial
from producer.voice import say
from producer.watch import Watch
from producer.writer import Delivered
from schemas.statuses import JobState

_CHANGED = "the source may have changed while it was read: run again"


@dataclass(frozen=True, slots=True)
class Reached:
    """What the services said before anything was read, and when; `has_workers` too where none are needed."""

    topic_exists: bool
    any_finished: bool
    has_workers: bool = True
    at: float = 0.0


def reach(run: Run) -> Reached:
    """Ask Kafka for the topic, and Postgres for its tables, finished rows and workers, as far as the run needs them.

    Raises `UnreachableError` within half a minute, or `WrongJobError`. That no worker is running is said at once, and
    ends the run only if there turns out to be something to publish.
    """
    job, dry = run.file.job, run.arguments.dry_run
    asks_kafka = job.mode == "kafka" and not dry
    exists = asks_kafka and sink.check_topic(run.settings.kafka, job.prompts_topic)
    watch = Watch(run.settings.database.url)
    if job.incremental or not dry:
        preflight.check_revision(watch.revision())
    any_finished = (job.incremental or not dry) and run.ledger.has_finished()
    has_workers = job.mode == "direct" or not run.has_canary or bool(preflight.look_for_workers(watch))
    return Reached(exists, any_finished, has_workers, time.monotonic())


def publish(spark: SparkSession, run: Run, reached: Reached) -> None:
    """Carry out one run; its counts are in `run.counts` as far as they are known, after an error too.

    Raises a `ProducerError` that names the place and the next step.
    """
    job = run.file.job
    looks_up = job.incremental and reached.any_finished
    if not looks_up:
        _need_workers(run, reached, lambda: _any_passes(spark, run))
    with judge(spark, run) as judged:
        plan = choose(judged, run, looks_up) if run.has_canary else None
        _need_workers(run, reached, lambda: bool(plan and plan.chosen))
        _keep_requests(spark, judged, run)
        if job.mode == "kafka" and not reached.topic_exists:
            sink.make_topic(run.settings.kafka, job.prompts_topic, run.settings.topics.partitions)
        run.ledger.start(run.id, job, JobState.CANARY if plan and plan.chosen else JobState.RUNNING)
        try:
            if job.mode == "direct":
                _answer(judged, run, looks_up, plan)
            else:
                _send(judged, run, looks_up, plan, _try(judged, run, plan, ByKafka(run)))
        finally:
            run.ledger.count(run.id, run.counts)
        _write_rejects(judged, run)
    if problem := run.counts.imbalance():
        raise RunFailedError(f"{problem}; {_CHANGED}")


def _any_passes(spark: SparkSession, run: Run) -> bool:
    """Tell whether any row is to be asked where none is finished, as soon as one is found."""
    table = read(spark, run.file, run.arguments.limit)
    rows = prepare(table, run.file.job, Request.of(run.file, run.id, run.started))
    with spark_errors():
        found = not publishable(duplicates.unsettled(rows)).select(names.ID).limit(1).isEmpty()
        table.rows.unpersist()
    return found


def _need_workers(run: Run, reached: Reached, wanted: Callable[[], bool]) -> None:
    if not reached.has_workers and wanted():
        preflight.wait_for_workers(Watch(run.settings.database.url), reached.at)


def _try(judged: Judged, run: Run, plan: Plan | None, chain: Chain) -> int:
    """Carry out the canary, if there is one; returns how many rows the chain has taken, or ends the run."""
    if plan is None or not plan.chosen:
        return 0
    trial = Trial(run, plan, chain)
    try:
        with run.ledger.attended(run.id):
            trial.carry_out(judged)
        if not run.ledger.proceed(run.id):
            raise StoppedError("the run was cancelled")
    except CanaryError as error:
        run.ledger.stop(run.id)
        chain.close()
        raise CanaryError(
            f"{error}. Published: the canary's {chain.acked} rows and nothing else; those without an answer end as "
            "cancelled, and the next run asks them again"
        ) from None
    except BaseException:
        # Whatever else ends a canary, SIGTERM too: nobody will judge it any more.
        with suppress(ProducerError):
            run.ledger.stop(run.id)
        raise
    finally:
        run.counts = plan.held(chain.acked)
    say(f"canary: passed. {run.forecast.text() if run.forecast else ''}")
    return chain.acked


def _keep_requests(spark: SparkSession, judged: Judged, run: Run) -> None:
    """Before anything is published: from its first message on, an answer finds all its rows."""
    with spark_errors():
        if judged.requests is None:
            request_table.forget(spark, run)
        else:
            request_table.write(spark, run, judged.requests, judged.draft)


def _send(judged: Judged, run: Run, looks_up: bool, plan: Plan | None, acked: int) -> None:
    """Publish what no canary has; counts of an unfinished run hold what the tasks that did finish published."""
    rows, observation = counted(judged.rows, run.file.job)
    lookup = run.ledger.finished if looks_up else None
    if plan and plan.is_all:
        # What is finished has been looked up for the canary, and nothing else is left.
        lookup = all_finished
    delivered = Delivered()

    def note(what: Delivered) -> None:
        nonlocal delivered
        delivered = what
        run.counts = Counts(published=acked + what.acked, skipped=what.skipped)

    deliver(rows, run, note, lookup, [row.id for row in plan.chosen] if plan else ())
    run.counts = judged_counts(observation.get, published=acked + delivered.acked, skipped=delivered.skipped)
    _check_requests(judged, int(observation.get["passing"]))


def _answer(judged: Judged, run: Run, looks_up: bool, plan: Plan | None) -> None:
    """Answer the rows inside Spark; the run is over with it, whatever has ended it.

    Those of a canary are among all rows once more, and told of as they have ended.
    """
    # Only here: whoever publishes needs nothing of a worker.
    from producer import answering

    try:
        _try(judged, run, plan, answering.ByTasks(run))
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
