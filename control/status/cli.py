"""`headrace status [JOB]`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Annotated

import typer
from rich.live import Live

from control.database import Connection, connect
from control.dead_letters import terminal
from control.ends import ending, stop
from control.help import settings as named
from control.status import showing
from control.status.document import Lag, StatusDocument
from control.status.lag import Lags
from control.status.moment import Facts, document
from control.status.reading import read
from control.topics import KafkaUnreachableError
from schemas.settings import DatabaseSettings, GroupSettings, KafkaSettings, SettingsError
from schemas.statuses import ExitCode

SETTINGS = (
    f"{named('DATABASE_URL', 'KAFKA_BOOTSTRAP_SERVERS', 'CONSUMER_GROUP')} NO_COLOR is obeyed."
    " Exit codes: 0 done, 1 refused, 2 wrong settings or no such job, 4 a service cannot be reached (without Kafka,"
    " what the database knows is shown)."
)
# Counting is not free where there are millions of rows: a watch takes at most a tenth of one connection's time.
_SHARE = 10
_Job = Annotated[str | None, typer.Argument(help="This job alone; all if absent.", show_default=False)]
_Watch = Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")]
_Every = Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two looks of --watch.")]
_Json = Annotated[bool, typer.Option("--json", help="One line of JSON: `headrace schema status` describes it.")]
_Runs = Annotated[int, typer.Option("--runs", min=1, help="So many of the newest runs of each job.")]


def status(
    job: _Job = None, watch: _Watch = False, every: _Every = 2.0, json: _Json = False, runs: _Runs = 5
) -> None:
    """Tell of each run where it is, how much is left, what failed, what it cost, and when it will end.

    Example: headrace status reviews --watch
    """
    with ending():
        kafka, group = KafkaSettings.read(os.environ), GroupSettings.read(os.environ)
        with closing(connect(DatabaseSettings.read(os.environ))) as connection:
            look = _looker(connection, Lags(kafka, group.group), job, runs)
            last = _watch(look, every, json=json) if watch else _once(look, json=json)
    if job is not None and not last.runs:
        stop(ExitCode.WRONG_SETTINGS, f"no job {terminal.visible(job, 200)}: it has no run and no result")
    if last.problems:
        raise typer.Exit(ExitCode.UNREACHABLE)


def _looker(connection: Connection, lags: Lags, job: str | None, runs: int) -> Callable[[], StatusDocument]:
    def look() -> StatusDocument:
        facts = read(connection, job, runs)
        lag, problems = _lag(lags, facts)
        return document(facts, lag, problems)

    return look


def _lag(lags: Lags, facts: Facts) -> tuple[list[Lag] | None, list[str]]:
    topics = {row["topic"] for row in facts.runs if row["shown"] and row["topic"]}
    try:
        return lags.of(topics), []
    except KafkaUnreachableError as error:
        return None, [f"kafka: {error}. Check KAFKA_BOOTSTRAP_SERVERS and that the broker is up."]
    except SettingsError as error:
        return None, error.problems


def _once(look: Callable[[], StatusDocument], *, json: bool) -> StatusDocument:
    found = look()
    console = terminal.console()
    if json or not console.is_terminal:
        _print(found, json=json)
    else:
        console.print(showing.screen(found, console.width))
    return found


def _watch(look: Callable[[], StatusDocument], every: float, *, json: bool) -> StatusDocument:
    console = terminal.console()
    found = look()
    try:
        if json or not console.is_terminal:
            while True:
                _print(found, json=json)
                found = _next(look, every)
        with Live(showing.screen(found, console.width), console=console, auto_refresh=False) as live:
            while True:
                found = _next(look, every)
                live.update(showing.screen(found, console.width), refresh=True)
    except KeyboardInterrupt:
        return found


def _next(look: Callable[[], StatusDocument], every: float) -> StatusDocument:
    time.sleep(every)
    began = time.monotonic()
    found = look()
    time.sleep(min(60.0, max(0.0, _SHARE * (time.monotonic() - began) - every)))
    return found


def _print(found: StatusDocument, *, json: bool) -> None:
    for line in [terminal.as_json(found.model_dump(mode="json"))] if json else showing.lines(found):
        typer.echo(line)
    sys.stdout.flush()
