"""What a start of the backfill may be told on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyspark

from backfill.errors import WrongJobError
from schemas import spark_jars

_EPILOG = """\
Example: spark-submit --packages PACKAGE backfill/job.py --job reviews.yaml
Settings come from the environment (DATABASE_URL, LOG_LEVEL). Run it as often as you like: a run that finds nothing
new writes nothing, and a second one on the same target ends at once."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What one start of the job was asked for; times in seconds."""

    job: Path
    watch: float | None = None
    reconcile: bool = False
    full_every: float = 3600.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongJobError(f"arguments: {message}. See --help.")


def parse(argv: Sequence[str]) -> Arguments:
    """Read a command line; raises `WrongJobError` that says what is wrong with it."""
    parser = _Parser(
        prog="spark-submit backfill/job.py",
        description="Join finished answers from Postgres into a warehouse table.",
        epilog=_EPILOG.replace("PACKAGE", spark_jars.DELTA.coordinates(pyspark.__version__) or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--job", type=Path, required=True, metavar="FILE", help="the job file (YAML)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--reconcile",
        action="store_true",
        help="write nothing: compare source, requests, results and target row by row; exit 1 if anything is wrong",
    )
    how.add_argument(
        "--watch",
        type=_seconds,
        nargs="?",
        const=60.0,
        metavar="SECONDS",
        help="stay, and look for new answers every so many seconds (60); ends with SIGTERM, between two runs",
    )
    parser.add_argument(
        "--full-every",
        type=_seconds,
        default=3600.0,
        metavar="SECONDS",
        help="with --watch: read everything again after so long, for changes of the source that no file shows (3600)",
    )
    return Arguments(**vars(parser.parse_args(argv)))


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return number
