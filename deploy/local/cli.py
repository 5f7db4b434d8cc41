"""`python -m deploy.local up | down | status | lock`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from deploy.local import jars, java, lock
from deploy.local.errors import LocalStackError, StoppedError
from deploy.local.home import DEFAULT_HOME, Home
from deploy.local.stack import LocalStack
from deploy.local.steps import Watch

REPOSITORY_ROOT = Path(__file__).parents[2]
SET_UP = (("migrate",), ("topics",))
EPILOG = """exit codes: 0 done, 1 a server ended or a file is wrong, 2 a program is missing,
3 interrupted (nothing is left running), 4 a server or a registry does not answer

example: python -m deploy.local up && set -a && . .headrace/local.env"""


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(
        prog="python -m deploy.local",
        description="Run a real Kafka and a real Postgres on this machine, without Docker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--home", type=Path, default=DEFAULT_HOME, help="where data and local.env lie")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start both, migrate, make the topics, write local.env")
    up.add_argument("--no-init", action="store_true", help="neither migrate nor make topics")
    down = commands.add_parser("down", help="stop both; keep their data")
    down.add_argument("--wipe", action="store_true", help="remove their data too")
    commands.add_parser("status", help="say what runs and where; exit 4 unless both answer")
    commands.add_parser("lock", help="resolve the POM of Kafka anew and rewrite the lock of its jars")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    signal.signal(signal.SIGTERM, _interrupt)
    chosen = parser().parse_args(arguments)
    home = Home(chosen.home)
    try:
        if chosen.command == "up":
            return up(home, init=not chosen.no_init)
        if chosen.command == "down":
            return down(home, wipe=chosen.wipe)
        return status(home) if chosen.command == "status" else relock()
    except KeyboardInterrupt:
        return _fail(StoppedError("Interrupted; nothing was left running."))
    except LocalStackError as error:
        return _fail(error)
    except OSError as error:
        return _fail(LocalStackError(f"{error.filename or home.path}: {error.strerror}; free or fix it, try again."))


def up(home: Home, *, init: bool) -> int:
    """Start what does not run yet, write local.env, then migrate and make the topics."""
    with home.alone():
        stack = home.stack()
        _say_where(home, stack)
        if stack.kafka.pid and stack.postgres.pid and _answering(stack):
            print("Already up.")
        else:
            _start(stack)
        home.write_env(stack.env)
        _print_state(stack)
        print(f"settings: {home.env_file}")
        return _initialise(stack.env) if init else 0


def _start(stack: LocalStack) -> None:
    began = time.monotonic()
    stack.start(Watch())
    print(f"Up after {time.monotonic() - began:.1f} s.")


def _answering(stack: LocalStack) -> bool:
    return stack.kafka.answers() and stack.postgres.answers()


def _say_where(home: Home, stack: LocalStack) -> None:
    if stack.postgres.folder != stack.postgres.wanted:
        print(
            f"Postgres runs as another user, who cannot enter {home.folder}: its data are in {stack.postgres.folder}."
        )


def _initialise(env: Mapping[str, str]) -> int:
    """Run the operator's commands that a new stack needs; return the first exit code that is not 0."""
    if not REPOSITORY_ROOT.joinpath("control", "__main__.py").exists():
        print("The headrace command is not here: nothing was migrated and no topic was made.")
        return 0
    for words in SET_UP:
        code = _headrace(words, env)
        if code:
            print(f"`headrace {' '.join(words)}` ended with {code}; both servers stay up.", file=sys.stderr)
            return code
    return 0


def _headrace(words: Sequence[str], env: Mapping[str, str]) -> int:
    command = [sys.executable, "-m", "control", *words]
    try:
        return subprocess.run(command, cwd=REPOSITORY_ROOT, env={**os.environ, **env}, check=False).returncode
    except KeyboardInterrupt:
        return StoppedError.exit_code


def down(home: Home, *, wipe: bool) -> int:
    """Stop both servers and take local.env away; keep the data unless told to wipe them."""
    if not home.folder.exists() and not home.env_file.exists():
        print("Nothing to stop.")
        return 0
    with home.alone():
        home.stack().stop()
        home.env_file.unlink(missing_ok=True)
        if wipe:
            home.wipe()
    print("Down; the data are gone." if wipe else f"Down; the data stay in {home.folder}.")
    return 0


def status(home: Home) -> int:
    """Print one line for each server."""
    if not home.folder.exists():
        print("Kafka: down\nPostgres: down")
        return 4
    stack = home.stack()
    _print_state(stack)
    return 0 if _answering(stack) else 4


def _print_state(stack: LocalStack) -> None:
    kafka, postgres = stack.kafka, stack.postgres
    print(f"Kafka: {_state(kafka.pid, kafka.bootstrap_servers, kafka.log)}")
    print(f"Postgres: {_state(postgres.pid, postgres.address, postgres.log)}")


def _state(pid: int | None, address: str, log: Path) -> str:
    return f"{address}, pid {pid}, log {log}" if pid else "down"


def relock() -> int:
    """Rewrite the lock file from what Maven resolves today; for a change of the POM."""
    lock.rewrite(java.find(), Watch(jars.FETCH_S))
    print(f"Wrote {jars.LOCK}; read the difference before you commit it.")
    return 0


def _fail(error: LocalStackError) -> int:
    print(error, file=sys.stderr)
    return error.exit_code


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
