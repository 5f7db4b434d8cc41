"""`headrace estimate --job FILE`."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
import yaml

from control.database import connect
from control.dead_letters import terminal
from control.ends import ending
from control.estimate import showing
from control.estimate.document import EstimateDocument
from control.estimate.estimating import Asked, estimate, rows_of
from control.estimate.reading import read
from control.help import settings as named
from schemas import catalog, examples, template
from schemas.catalog import Catalog
from schemas.documents import read_document
from schemas.endpoints import ModelsSettings
from schemas.examples import Example
from schemas.job import Job
from schemas.settings import DatabaseSettings, SettingsError

SETTINGS = (
    f"{named('DATABASE_URL', 'MODELS_FILE', 'LLM_MODEL')} MODELS_FILE has prices and limits; LLM_MODEL is the alias"
    " of rows that no route takes, the file's first if absent. Exit codes: 0 done, 1 refused, 2 wrong settings or job"
    " file, or no number of rows, 4 the database cannot be reached. `headrace schema estimate` describes what --json"
    " prints."
)
_File = Annotated[Path, typer.Option("--job", metavar="FILE", help="The job file.", show_default=False)]
_Rows = Annotated[
    int | None, typer.Option("--rows", min=0, help="So many rows ask; those of the job's newest run if absent.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def estimate_(job: _File, rows: _Rows = None, as_json: _Json = False) -> None:
    """Tell what a run would cost and how long it would take, and what that rests on; nothing is published.

    It rests on earlier results of the job, else on its last canary, else on bounds that the job file gives.

    Example: headrace estimate --job reviews.yaml --rows 2000000
    """
    with ending():
        found = _estimated(job, rows)
    for line in [terminal.as_json(found.model_dump(mode="json"))] if as_json else showing.lines(found):
        typer.echo(line)


def _estimated(path: Path, rows: int | None) -> EstimateDocument:
    database = DatabaseSettings.read(os.environ)
    known = catalog.read(ModelsSettings.read(os.environ), yaml.safe_load)
    job, shown = _job(path, known)
    with closing(connect(database)) as connection:
        facts = read(connection, job)
    counted = (rows, "given by --rows") if rows is not None else rows_of(facts)
    if counted is None:
        said = f"no run of {job.job} has told its counts: give --rows N (a dry run's last line: would_publish)"
        raise SettingsError("options", [said])
    return estimate(Asked(job, shown, known, *counted), facts)


def _job(path: Path, known: Catalog | None) -> tuple[Job, tuple[Example, ...]]:
    job = read_document(path, Job, yaml.safe_load)
    shown, problems = examples.read(path.absolute().parent, job.prompt.examples)
    if problems := [*_system(job), *problems, *(known.problems(job) if known else ())]:
        raise SettingsError(str(path), problems)
    return job, shown


def _system(job: Job) -> list[str]:
    try:
        template.parse(job.prompt.system or "")
    except ValueError as error:
        return [f"prompt.system: {error}"]
    return []
