"""The command line of `spark-submit producer/job.py`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from producer.errors import WrongJobError

_EPILOG = """\
Example: spark-submit producer/job.py --job reviews.yaml --dry-run
Settings come from the environment (KAFKA_BOOTSTRAP_SERVERS, DATABASE_URL, ...); see .env.example.
A relative path in the job file is local and starts at the folder of the job file.
First some rows (canary.rows, 200) go through the whole chain: a worker must be running, or pass --no-canary.
Exit codes: 0 done, 1 the run failed, 2 wrong job file or settings, 3 stopped, 4 a service cannot be reached.
The last line on standard output is one JSON object with the counts of the run."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What one start of the job was asked for."""

    job: Path
    limit: int | None = None
    dry_run: bool = False
    no_canary: bool = False
    retry_failed: bool = False
    print_prompts: int = 3


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongJobError(f"arguments: {message}. See --help.")


def parse(argv: Sequence[str]) -> Arguments:
    """Read the arguments after the file name; raises `WrongJobError`, and exits 0 after `--help`."""
    parser = _Parser(
        prog="spark-submit producer/job.py",
        description="Read a table, clean it, make prompts and publish <id, prompt> to Kafka.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--job", type=Path, required=True, metavar="FILE", help="the job file (YAML)")
    parser.add_argument("--limit", type=_count, metavar="N", help="read only N rows")
    parser.add_argument(
        "--dry-run", action="store_true", help="count, and show some prompts; write and publish nothing"
    )
    parser.add_argument(
        "--no-canary", action="store_true", help="publish all rows at once, whether or not a worker is running"
    )
    parser.add_argument("--retry-failed", action="store_true", help="publish rows again whose result is failed")
    parser.add_argument(
        "--print-prompts", type=_count, metavar="N", help="of --dry-run: show N prompts as they are sent (default 3)"
    )
    given = {name: value for name, value in vars(parser.parse_args(argv)).items() if value is not None}
    if "print_prompts" in given and not given["dry_run"]:
        parser.error("--print-prompts goes with --dry-run: no log holds prompts")
    return Arguments(**given)


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1")
    return number
