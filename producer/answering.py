"""Direct mode on the driver: rows go to the tasks' workers instead of Kafka, and their outcomes are counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn

from producer.aside import Aside
from producer.columns import FINGERPRINT, ID, VALUE, column
from producer.counts import Counts, counted, judged_counts
from producer.direct import HALTED, LEFT_OPEN, OVERTAKEN, SCHEMA, SKIPPED, Assignment, halt_of
from producer.errors import ProducerError, RunFailedError, StoppedError, UnreachableError, WrongJobError
from producer.explain import spark_errors
from producer.run import Judged, Run
from schemas.statuses import ExitCode, JobState, PausedFor, Status

_ERRORS: Mapping[ExitCode, type[ProducerError]] = {
    ExitCode.WRONG_SETTINGS: WrongJobError,
    ExitCode.STOPPED: StoppedError,
    ExitCode.UNREACHABLE: UnreachableError,
}
# For a stop: tasks learn of it within seconds and then have DRAIN_SECONDS, 25 unless their environment says more.
_DRAIN_SECONDS = 40.0
# The tasks see a batch at a time whole, so it is kept small.
_BATCH = {"spark.sql.execution.arrow.maxRecordsPerBatch": "500"}


@dataclass(frozen=True, slots=True)
class Told:
    """What the tasks told of their rows; each row is counted once, tokens and retries are those of its result."""

    answered: int
    failed: int
    superseded: int
    open: int
    skipped: int
    prompt_tokens: int
    completion_tokens: int
    retries: int

    @property
    def given(self) -> int:
        """Rows that were given to the workers and are dealt with."""
        return self.answered + self.failed + self.superseded

    @property
    def shown(self) -> dict[str, int]:
        """What the last line tells of it besides the usual counts."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "skipped"}


# What tasks told, and why they have left rows open if they have.
Ends: TypeAlias = tuple[Told, str | None]


def answer(judged: Judged, run: Run, looks_up: bool) -> int:
    """Answer all rows and tell how many there were.

    Counts of a run that fails in the middle are what the table of results says of it.
    Raises a `ProducerError`: a `StoppedError` where a pause, a budget or a fault of the run has left rows open.
    """
    rows, observation = counted(judged.rows, run.file.job)
    tasks = Aside(lambda: _ask(rows, run, looks_up), "headrace-answers")
    try:
        ends, halt, stop = _ended(tasks, run)
    except BaseException:
        run.counts = Counts(published=run.ledger.given(run.id))
        raise
    run.counts = judged_counts(observation.get, published=ends.given, skipped=ends.skipped)
    run.told = {**ends.shown, "in_doubt": run.ledger.in_doubt(run.id, run.started)}
    if stop is not None:
        raise stop
    passing = int(observation.get["passing"])
    _judge(run, ends, passing, halt)
    return passing


def _ended(tasks: Aside[Ends], run: Run) -> tuple[Told, str | None, BaseException | None]:
    """Wait for the tasks; told to stop, let them end the calls that they have begun, which are paid for, and no more.

    Gives what they told, and the stop; raises it if they are not done in time, or cannot be told.
    """
    try:
        return *tasks.result(), None
    except (StoppedError, KeyboardInterrupt) as stop:
        with suppress(ProducerError, TimeoutError):
            run.ledger.pause(run.id)
            return *tasks.result(_DRAIN_SECONDS), stop
        raise


class ByTasks:
    """The chain of a canary in direct mode: tasks answer the rows while the driver's main thread looks on."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._number = 0
        self._tasks: Aside[Ends] | None = None
        self._told: Ends | None = None
        self._error: BaseException | None = None
        self.acked = 0

    def send(self, rows: DataFrame, number: int) -> None:
        """See `Chain`."""
        self._number, self._told = number, None
        self._tasks = Aside(lambda: _ask(rows, self._run, looks_up=False), "headrace-canary")

    def check(self) -> None:
        """See `Chain`: the tasks may have left rows open."""
        if self._tasks and self._tasks.done():
            self.finish()

    def finish(self) -> None:
        """See `Chain`."""
        self.close()
        if self._error is not None:
            raise self._error
        if self._told is not None:
            ends, halt = self._told
            _judge(self._run, ends, self._number, halt)

    def close(self) -> None:
        """See `Chain`."""
        if self._tasks:
            tasks = self._tasks
            tasks.wait()
            self._tasks = None
            try:
                self._told = tasks.result()
                self.acked += self._told[0].given
            except BaseException as error:
                self._error = error


def _ask(rows: DataFrame, run: Run, looks_up: bool) -> Ends:
    """Let tasks answer the rows; tells what became of them, and why some are left open if they are."""
    assignment = Assignment(run.ledger.apart_from(run.id), run.id, looks_up)
    sent = [column(name).cast("binary").alias(name) for name in (ID, VALUE)]
    outcomes = rows.select(*sent, column(FINGERPRINT)).mapInArrow(assignment.answer, SCHEMA)
    told = Observation()
    with spark_errors(), small_batches(rows.sparkSession):
        outcomes.observe(told, *_metrics()).write.format("noop").mode("overwrite").save()
    found = told.get
    return Told(*(int(found[name] or 0) for name in Told.__slots__)), found["halt"]


@contextmanager
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Let Spark hand rows over in small batches meanwhile."""
    before = {name: spark.conf.get(name) for name in _BATCH}
    for name, value in _BATCH.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def _metrics() -> list[Column]:
    ends = {
        "answered": Status.SUCCEEDED,
        "failed": Status.FAILED,
        "superseded": OVERTAKEN,
        "open": LEFT_OPEN,
        "skipped": SKIPPED,
    }
    sums = ("prompt_tokens", "completion_tokens", "retries")
    return [
        *(fn.count_if(fn.col("status") == str(status)).alias(name) for name, status in ends.items()),
        *(fn.sum(name).alias(name) for name in sums),
        fn.max(fn.when(fn.col("status") == HALTED, fn.col("reason"))).alias("halt"),
    ]


def _judge(run: Run, ends: Told, passing: int, halt: str | None) -> None:
    state, paused_for = run.ledger.state(run.id)
    left = f"{ends.open} rows were left open; run again for them"
    if state is JobState.CANCELLED:
        raise StoppedError(f"the run was cancelled: {ends.failed} rows failed, those without an answer as cancelled")
    if state is JobState.PAUSED and paused_for is PausedFor.BUDGET:
        raise StoppedError(f"the run's budget is used up: {left}, with a budget of their own")
    if halt is not None:
        code, text = halt_of(halt)
        raise _ERRORS.get(code, RunFailedError)(f"{text}. {left}")
    if ends.open:
        raise RunFailedError(left)
    if ends.given + ends.skipped != passing:
        raise RunFailedError(
            f"{passing} rows were to be answered, {ends.given + ends.skipped} were told of: run again"
        )
