"""`headrace report JOB`: the page, or with `--against` what one run changed against another."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console

from control.database import connect
from control.ends import Ends, ending
from control.help import settings as named
from control.report import measured, writing
from control.report.database import Comparison
from control.report.difference import Difference
from control.report.page import page
from control.report.requests import RequestsUnreadableError, RequestTables, read_job
from control.report.showing import show
from schemas.settings import DatabaseSettings, SettingsError
from schemas.statuses import ExitCode

SETTINGS = named("DATABASE_URL")
_ENDS: Ends = {
    RequestsUnreadableError: (ExitCode.FAILED, "table of requests: {}"),
    writing.PageUnwritableError: (ExitCode.FAILED, "report: {}. Name another place with --out."),
}
_Job = Annotated[str, typer.Argument(help="The job's name, as in its job file.", show_default=False)]
_Against = Annotated[str | None, typer.Option("--against", help="Compare with this run instead of writing a page.")]
_File = Annotated[
    Path | None, typer.Option("--job-file", help="For --against: says where the table of requests lies.")
]
_Run = Annotated[
    str | None, typer.Option("--run", help="This run alone; if absent all runs, for --against the newest.")
]
_Out = Annotated[Path | None, typer.Option("--out", help="Where the page is written; JOB-report.html if absent.")]
_Json = Annotated[bool, typer.Option("--json", help="For --against: print one JSON document.")]


def report(
    job: _Job,
    against: _Against = None,
    job_file: _File = None,
    run: _Run = None,
    out: _Out = None,
    as_json: _Json = False,
) -> None:
    """Write what a job did as one HTML file, or tell what a run changed against an earlier one.

    The page needs no network and runs no script. Answers are shown only where they are labels: short, and few. To
    compare, a job with `dedup: false` keeps no table of requests.

    Example: headrace report reviews --out reviews.html
    """
    with ending(_ENDS):
        if against is None:
            _refuse({"--job-file": job_file, "--json": as_json}, "goes with --against")
            typer.echo(_written(job, run, out or Path(f"{quote(job, safe='')}-report.html")))
        elif job_file is None:
            raise SettingsError("options", ["--job-file: is needed for --against"])
        else:
            _refuse({"--out": out}, "is for the page, which does not compare: leave out --against")
            _tell(_compared(job, against, run, RequestTables(read_job(job_file, job))), as_json=as_json)


def _refuse(options: Mapping[str, object], why: str) -> None:
    if given := [f"{name}: {why}" for name, value in options.items() if value]:
        raise SettingsError("options", given)


def _written(job: str, run: str | None, path: Path) -> Path:
    writing.check(path)
    with closing(connect(DatabaseSettings.read(os.environ))) as connection:
        found = measured.read(connection, job, run)
    writing.write(path, page(found))
    return path


def _tell(difference: Difference, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(difference.document(), ensure_ascii=False))
    else:
        show(Console(), difference)


def _compared(job: str, against: str, run: str | None, tables: RequestTables) -> Difference:
    after = run or (tables.runs[-1] if tables.runs else "")
    known = ", ".join(tables.runs) or "none"
    wanted = {"--against": against, "--run": after}
    if problems := [
        f"{name} {value!r}: no table of requests; there are those of: {known}"
        for name, value in wanted.items()
        if value not in tables.runs
    ]:
        raise SettingsError("options", problems)
    with closing(Comparison(DatabaseSettings.read(os.environ), job)) as comparison:
        return comparison.compare(against, after, tables.rows(against), tables.rows(after))
