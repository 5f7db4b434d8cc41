"""`python -m deploy.demo [--rows N|all] [--model sim|local]`: the whole pipeline on this machine."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from deploy.demo.errors import DemoError
from deploy.demo.place import ROOT, Place
from deploy.demo.run import Demo
from deploy.demo.voice import Voice
from deploy.local.errors import LocalStackError
from schemas.statuses import ExitCode

_DEFAULT_ROWS = {"sim": "2000", "local": "40"}


def main() -> int:
    """Run one demo; returns its exit code."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    voice = Voice()
    began = time.monotonic()
    try:
        rows = arguments.rows or _DEFAULT_ROWS[arguments.model]
        voice.show(summary := Demo(arguments.model, None if rows == "all" else int(rows), voice).run())
    except KeyboardInterrupt:
        voice.say("Interrupted; nothing was left running. `make demo` goes on where this one ended.")
        return ExitCode.STOPPED
    except (DemoError, LocalStackError) as error:
        print(f"The demo stopped: {error}", file=sys.stderr)
        return error.exit_code
    voice.point(_next_steps(arguments.model))
    voice.say(
        f"\nDone in {time.monotonic() - began:.0f} s: {summary.ended:,} answers, {summary.calls.calls:,} calls."
    )
    return ExitCode.DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo", description=__doc__)
    parser.add_argument("--rows", type=_rows, help="how many texts, or all; 2000 by default, 40 with the local model")
    parser.add_argument(
        "--model", choices=sorted(_DEFAULT_ROWS), default="sim", help="simulated, or a real small one"
    )
    return parser


def _rows(text: str) -> str | None:
    if text in ("", "all") or (text.isdigit() and int(text) > 0):
        return text or None
    raise argparse.ArgumentTypeError("must be a number above 0, or all")


def _next_steps(model: str) -> list[str]:
    folder = Place.of(model).folder.relative_to(ROOT)
    return [
        f"the table:         {folder}/warehouse/tweets_labelled (Parquet)",
        f"the job file:      {folder}/tweets.yaml, made for your own table in a few lines: see README.md",
        f"rejected rows:     {folder}/warehouse/tweets_labelled_rejects",
        f"logs:              {folder}/logs",
        "again:             `make demo` publishes only what has no answer yet; ROWS=all takes every text",
        "with a real model: `make demo MODEL=local`, or LLM_BASE_URL and LLM_API_KEY for your own endpoint",
        "the fleet:         `make up-local` keeps Kafka and Postgres; `docker compose up worker --scale worker=8`",
    ]


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
