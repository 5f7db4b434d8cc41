"""Join finished answers into a warehouse table: `spark-submit backfill/job.py --job FILE`.

A relative path in the job file is local and starts at the folder of the job file. The last line on standard output,
on failure too, is one JSON object: job, counts, seconds, exit code and the error, if there was one.
Exit codes: 0 done, 1 the run failed, 2 wrong job file or settings, 3 stopped, 4 the database cannot be reached.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession, is_remote

from backfill import cursor, jvm
from backfill.arguments import parse
from backfill.counts import Counts
from backfill.errors import AlreadyRunningError, BackfillError, RunFailedError, StoppedError, WrongJobError
from backfill.explain import hush, spark_errors
from backfill.reconcile import reconcile
from backfill.run import backfill
from backfill.session import session
from backfill.settings import BackfillSettings, JobFile, read_job, read_settings
from backfill.source import database_session
from backfill.watch import Pace, Watcher
from schemas import requests_table, spark_connect, spark_jars
from schemas.places import trail
from schemas.settings import SettingsError
from schemas.statuses import ExitCode

# What `spark-submit` tells its Python: then the JVM is the process that a scheduler stops.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
Made = TypeVar("Made")


@dataclass(slots=True)
class Outcome:
    """What the last line tells."""

    job: str | None = None
    counts: Counts = field(default_factory=Counts)
    exit_code: ExitCode = ExitCode.DONE
    error: str | None = None
    note: str | None = None
    stop: StoppedError | None = None
    told: dict[str, Any] | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one start of the job and return its exit code."""
    started = time.monotonic()
    outcome = Outcome()
    signal.signal(signal.SIGTERM, lambda *_: _stop(outcome))
    if SUBMITTED in os.environ:
        jvm.pass_on(lambda: os.kill(os.getpid(), signal.SIGTERM))
    # Spark's Python side logs the errors that it raises; here each is told once, in one line.
    logging.basicConfig(handlers=[logging.NullHandler()])
    hush()
    try:
        _carry_out(sys.argv[1:] if argv is None else argv, outcome)
    except AlreadyRunningError as error:
        outcome.note = str(error)
        _say(sys.stderr, f"backfill: {error}")
    except KeyboardInterrupt:
        _fail(outcome, StoppedError("stopped by the keyboard; run again to complete it"))
    except Exception as error:
        # What interrupts Spark's own calls comes out as an error of theirs.
        _fail(outcome, outcome.stop or error)
    _say(sys.stdout, last_line(outcome, time.monotonic() - started))
    return outcome.exit_code


def last_line(outcome: Outcome, seconds: float) -> str:
    """Write the counts of a run, whatever became of it, as one line of JSON."""
    line: dict[str, Any] = {"job": outcome.job} | (asdict(outcome.counts) if outcome.told is None else outcome.told)
    line |= {"seconds": round(seconds, 1), "exit": int(outcome.exit_code)}
    line |= {"note": outcome.note} if outcome.note else {}
    line |= {"error": outcome.error} if outcome.error else {}
    return json.dumps(line, ensure_ascii=False)


def _carry_out(argv: Sequence[str], outcome: Outcome) -> None:
    asked = parse(argv)
    settings = read_settings(os.environ)
    file = read_job(asked.job, os.environ)
    outcome.job = file.job.job
    if os.environ.get(spark_connect.REMOTE) and file.job.target.format == "parquet":
        raise WrongJobError(spark_connect.NO_PARQUET)
    if asked.watch is not None:
        return _watch(settings, file, Pace(asked.watch, asked.full_every), outcome)
    if asked.reconcile:
        return _reconcile(settings, file, outcome)
    with database_session(settings.database.url, file.job.job, file.target_name) as held:
        _with_spark(settings, file, lambda spark: backfill(spark, file, held, outcome.counts))
    if not cursor.keep(held.snapshot, file.target_name, outcome.counts):
        _say(sys.stderr, "backfill: the user of DATABASE_URL may not write headrace.backfills: nobody sees this run")
    return None


def _reconcile(settings: BackfillSettings, file: JobFile, outcome: Outcome) -> None:
    """Compare everything; raises `RunFailedError` when anything is wrong, or cannot be looked at now."""
    outcome.told = {}
    try:
        with database_session(settings.database.url, file.job.job, file.target_name) as held:
            findings = _with_spark(settings, file, lambda spark: reconcile(spark, file, held))
    except AlreadyRunningError:
        raise RunFailedError("a backfill of this target is running: reconcile when it has ended") from None
    outcome.told = findings.told()
    if wrong := {name: number for name, number in findings.faults.items() if number}:
        what = ", ".join(f"{number} {name}" for name, number in wrong.items())
        raise RunFailedError(f"reconcile: {what}; docs/runbook.md says what each means and what to do")


def _watch(settings: BackfillSettings, file: JobFile, pace: Pace, outcome: Outcome) -> None:
    """Look again and again until SIGTERM or the keyboard; a second one stops in the middle of a run."""
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        if stop.is_set():
            _stop(outcome)
        stop.set()

    def told(counts: Counts, seconds: float) -> None:
        _say(sys.stdout, last_line(Outcome(file.job.job, counts), seconds))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    missed = lambda error: _say(sys.stderr, f"backfill: {error}; the next look is in {pace.seconds:g} s")  # noqa: E731
    spark = _session(file)
    try:
        if not is_remote():
            jvm.pass_on(stop.set)
        outcome.counts = Watcher(spark, settings, file, pace, told, missed).run(stop)
    finally:
        spark.stop()


def _with_spark(settings: BackfillSettings, file: JobFile, act: Callable[[SparkSession], Made]) -> Made:
    spark = _session(file)
    try:
        with spark_errors():
            return act(spark)
    finally:
        # When its process is gone already, the error that told so is the one to hear.
        with suppress(Py4JError, OSError):
            spark.stop()


def _session(file: JobFile) -> SparkSession:
    beside = requests_table.address(file.beside)
    return session(f"headrace backfill {file.job.job}", spark_jars.needs(file.job), beside)


def _fail(outcome: Outcome, error: Exception) -> None:
    known = isinstance(error, SettingsError | BackfillError)
    outcome.exit_code = _code(error)
    outcome.error = str(error) if known else f"{type(error).__name__}; LOG_LEVEL=DEBUG shows where"
    if os.environ.get("LOG_LEVEL") == "DEBUG":
        for line in trail(error):
            _say(sys.stderr, f"backfill: {line}")
    for line in outcome.error.splitlines():
        _say(sys.stderr, f"backfill: {line}")


def _code(error: Exception) -> ExitCode:
    if isinstance(error, BackfillError):
        return error.exit_code
    return ExitCode.WRONG_SETTINGS if isinstance(error, SettingsError) else ExitCode.FAILED


def _say(stream: Any, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def _stop(outcome: Outcome) -> NoReturn:
    """Raise where the run is; from now on nothing interrupts its end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    outcome.stop = StoppedError(
        "stopped by SIGTERM; the target shows this run whole or not at all: run again to complete it"
    )
    raise outcome.stop


if __name__ == "__main__":
    sys.exit(main())
