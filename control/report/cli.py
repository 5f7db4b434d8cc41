"""`headrace report JOB --against RUN --job-file FILE`."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from control.ends import Ends, ending
from control.report.database import Comparison
from control.report.difference import Difference
from control.report.requests import RequestsUnreadableError, RequestTables, read_job
from control.report.showing import show
from schemas.settings import DatabaseSettings, SettingsError
from schemas.statuses import ExitCode

SETTINGS = "Settings: DATABASE_URL."
_ENDS: Ends = {RequestsUnreadableError: (ExitCode.FAILED, "table of requests: {}")}
_Job = Annotated[str, typer.Argument(help="The job's name, as in its job file.", show_default=False)]
_File = Annotated[Path, typer.Option("--job-file", help="The job file: says where the table of requests lies.")]
_Against = Annotated[str, typer.Option("--against", help="The run to compare with.")]
_Run = Annotated[str | None, typer.Option("--run", help="The run to compare; the newest if absent.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def report(job: _Job, against: _Against, job_file: _File, run: _Run = None, as_json: _Json = False) -> None:
    """Tell what a run changed against an earlier one: labels, rows added and gone, what the change cost.

    Answers are shown only where they are labels: short, and few. A job with `dedup: false`
    keeps no table of requests.

    Example: headrace report reviews --against RUN --job-file reviews.yaml
    """
    with ending(_ENDS):
        difference = _compared(job, against, run, RequestTables(read_job(job_file, job)))
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
