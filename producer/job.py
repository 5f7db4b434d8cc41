"""Read a table, clean it, make prompts, publish `<id, prompt>` to Kafka: `spark-submit producer/job.py --job FILE`.

A relative path in the job file is local and starts at the folder of the job file. The last line on standard output,
on failure too, is one JSON object: job, run, counts, seconds, exit code and the error, if there was one.
Exit codes: 0 done, 1 the run failed, 2 wrong job file or settings, 3 stopped, 4 a service cannot be reached.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from pyspark.sql import is_remote

from producer import connect, jvm
from producer.arguments import parse
from producer.counts import Counts
from producer.dryrun import Estimate, dry_run
from producer.errors import ProducerError, StoppedError
from producer.explain import hush
from producer.pipeline import publish, reach
from producer.refusals import problems
from producer.run import Run
from producer.session import session
from producer.settings import read_job, read_settings
from producer.voice import say
from schemas import requests_table, spark_jars
from schemas.places import trail
from schemas.settings import SettingsError
from schemas.statuses import ExitCode

# What `spark-submit` tells its Python: then the JVM is the process that a scheduler stops.
SUBMITTED = "PYSPARK_GATEWAY_PORT"


@dataclass(slots=True)
class Outcome:
    """What the last line tells besides the counts."""

    run: Run | None = None
    exit_code: ExitCode = ExitCode.DONE
    error: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    stop: StoppedError | None = None


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
    except KeyboardInterrupt:
        _fail(outcome, StoppedError("stopped by the keyboard"))
    except Exception as error:
        # What interrupts Spark's own calls comes out as an error of theirs.
        _fail(outcome, outcome.stop or error)
    _say(last_line(outcome, time.monotonic() - started))
    return outcome.exit_code


def last_line(outcome: Outcome, seconds: float) -> str:
    """Write the counts of a run, whatever became of it, as one line of JSON."""
    run = outcome.run
    line: dict[str, Any] = {"job": run.file.job.job if run else None, "run": run.id if run else None}
    line |= asdict(run.counts if run else Counts())
    line |= {"estimate": run.forecast.told()} if run and run.forecast else {}
    line |= {**(run.told if run else {}), **outcome.extra}
    line |= {"seconds": round(seconds, 1), "exit": int(outcome.exit_code)}
    if outcome.error is not None:
        line["error"] = outcome.error
    return json.dumps(line, ensure_ascii=False)


def _carry_out(argv: Sequence[str], outcome: Outcome) -> None:
    arguments = parse(argv)
    settings = read_settings(os.environ)
    file = read_job(arguments.job, os.environ, lambda job: problems(job, arguments, settings))
    if note := settings.unchecked(file.job):
        say(note)
    run = outcome.run = Run(file, settings, arguments)
    reached = reach(run)
    needs = spark_jars.needs(file.job, target=False)
    with session(f"headrace producer {file.job.job}", needs) as spark:
        if is_remote() and not arguments.dry_run:
            connect.check_shared(spark, requests_table.address(file.locate(file.job.target.base)))
        if arguments.dry_run:
            outcome.extra = _show(dry_run(spark, run, reached))
        else:
            publish(spark, run, reached)


def _show(estimate: Estimate) -> dict[str, Any]:
    for sample in estimate.samples:
        _say(sample)
    return {
        "dry_run": True,
        "would_publish": estimate.rows,
        "prompt_chars": estimate.prompt_chars,
        "estimated_prompt_tokens": list(estimate.prompt_tokens),
    }


def _fail(outcome: Outcome, error: Exception) -> None:
    known = isinstance(error, SettingsError | ProducerError)
    outcome.error = str(error) if known else f"{type(error).__name__}; LOG_LEVEL=DEBUG shows where"
    outcome.exit_code = _code(error)
    if os.environ.get("LOG_LEVEL") == "DEBUG":
        for line in trail(error):
            say(line)
    for line in outcome.error.splitlines():
        say(line)


def _code(error: Exception) -> ExitCode:
    if isinstance(error, ProducerError):
        return error.exit_code
    return ExitCode.WRONG_SETTINGS if isinstance(error, SettingsError) else ExitCode.FAILED


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _stop(outcome: Outcome) -> NoReturn:
    """Raise where the run is; from now on nothing interrupts its end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    outcome.stop = StoppedError("stopped by SIGTERM; what was acknowledged stays published: run again for the rest")
    raise outcome.stop


if __name__ == "__main__":
    sys.exit(main())
