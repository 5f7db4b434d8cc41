"""Join finished answers into a warehouse table: `spark-submit backfill/job.py --job FILE`.

A relative path in the job file is local and starts at the folder of the job file. The last line on standard output,
on failure too, is one JSON object: job, counts, seconds, exit code and the error, if there was one.
Exit codes: 0 done, 1 the run failed, 2 wrong job file or settings, 3 stopped, 4 the database cannot be reached.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from backfill.counts import Counts
from backfill.errors import AlreadyRunningError, BackfillError, StoppedError, WrongJobError
from backfill.explain import failure
from backfill.run import backfill
from backfill.session import session
from backfill.settings import BackfillSettings, JobFile, read_job, read_settings
from backfill.source import Session, database_session
from schemas import spark_jars
from schemas.settings import SettingsError
from schemas.statuses import ExitCode

_EPILOG = """\
Example: spark-submit --packages PACKAGE backfill/job.py --job reviews.yaml
Settings come from the environment (DATABASE_URL, LOG_LEVEL). Run it as often as you like: a run that finds nothing
new writes nothing, and a second one on the same target ends at once."""


@dataclass(slots=True)
class Outcome:
    """What the last line tells."""

    job: str | None = None
    counts: Counts = field(default_factory=Counts)
    exit_code: ExitCode = ExitCode.DONE
    error: str | None = None
    note: str | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongJobError(f"arguments: {message}. See --help.")


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one start of the job and return its exit code."""
    started = time.monotonic()
    signal.signal(signal.SIGTERM, _stop)
    outcome = Outcome()
    try:
        _carry_out(sys.argv[1:] if argv is None else argv, outcome)
    except AlreadyRunningError as error:
        outcome.note = str(error)
        _say(sys.stderr, f"backfill: {error}")
    except SettingsError as error:
        _fail(outcome, ExitCode.WRONG_SETTINGS, error)
    except BackfillError as error:
        _fail(outcome, error.exit_code, error)
    except KeyboardInterrupt:
        _fail(outcome, ExitCode.STOPPED, StoppedError("stopped by the keyboard; run again to complete it"))
    except Exception as error:
        _fail(outcome, ExitCode.FAILED, error)
    _say(sys.stdout, last_line(outcome, time.monotonic() - started))
    return outcome.exit_code


def last_line(outcome: Outcome, seconds: float) -> str:
    """Write the counts of a run, whatever became of it, as one line of JSON."""
    line: dict[str, Any] = {"job": outcome.job} | asdict(outcome.counts)
    line |= {"seconds": round(seconds, 1), "exit": int(outcome.exit_code)}
    line |= {"note": outcome.note} if outcome.note else {}
    line |= {"error": outcome.error} if outcome.error else {}
    return json.dumps(line, ensure_ascii=False)


def _carry_out(argv: Sequence[str], outcome: Outcome) -> None:
    path = _parse(argv)
    settings = read_settings(os.environ)
    file = read_job(path, os.environ)
    outcome.job = file.job.job
    with database_session(settings.database.url, file.job.job, file.target_name) as held:
        _with_spark(settings, file, held, outcome.counts)


def _parse(argv: Sequence[str]) -> Path:
    parser = _Parser(
        prog="spark-submit backfill/job.py",
        description="Join finished answers from Postgres into a warehouse table.",
        epilog=_EPILOG.replace("PACKAGE", spark_jars.DELTA.coordinates(pyspark.__version__) or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--job", type=Path, required=True, metavar="FILE", help="the job file (YAML)")
    found: Path = parser.parse_args(argv).job
    return found


def _with_spark(settings: BackfillSettings, file: JobFile, held: Session, counts: Counts) -> None:
    spark = session(f"headrace backfill {file.job.job}", settings.log.level, spark_jars.needs(file.job))
    try:
        backfill(spark, file, held, counts)
    except (PySparkException, Py4JError) as error:
        raise failure(error) from error
    finally:
        spark.stop()


def _fail(outcome: Outcome, code: ExitCode, error: Exception) -> None:
    known = isinstance(error, SettingsError | BackfillError)
    outcome.exit_code = code
    outcome.error = str(error) if known else f"{type(error).__name__}; LOG_LEVEL=DEBUG shows where"
    if os.environ.get("LOG_LEVEL") == "DEBUG":
        traceback.print_exception(error)
    for line in outcome.error.splitlines():
        _say(sys.stderr, f"backfill: {line}")


def _say(stream: Any, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def _stop(*_: object) -> NoReturn:
    raise StoppedError("stopped by SIGTERM; the target shows this run whole or not at all: run again to complete it")


if __name__ == "__main__":
    sys.exit(main())
