"""`headrace`: the operator's command."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from control.config.cli import app as config
from control.config.document import ConfigDocument
from control.dead_letters.cli import app as dead_letters
from control.doctor import cli as doctors
from control.ends import stop
from control.estimate import cli as estimates
from control.estimate.document import EstimateDocument
from control.exporter import cli as exporting
from control.help import settings as named
from control.jobs import cli as jobs
from control.migrate import migrate as run_migrations
from control.migrate import problem
from control.reconcile import cli as reconciliations
from control.report import cli as reports
from control.roles import RolesMissingError
from control.status import cli as status
from control.status.document import StatusDocument
from control.topics import KafkaUnreachableError, TopicRefusedError, make_topics
from schemas.job import Job
from schemas.models import ModelsFile
from schemas.settings import DatabaseSettings, KafkaSettings, SettingsError, TopicSettings
from schemas.statuses import ExitCode

T = TypeVar("T")

app = typer.Typer(
    help="Run a large language model over big tables. Settings come from the environment; see .env.example.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    epilog="Exit codes: 0 done, 1 failed, 2 wrong settings, 3 stopped on purpose, 4 a service cannot be reached.",
)

app.add_typer(dead_letters, name="dead-letters")
app.add_typer(config, name="config")
for order in (jobs.pause, jobs.resume, jobs.cancel):
    app.command(epilog=jobs.SETTINGS)(order)
app.command(epilog=reports.SETTINGS)(reports.report)
app.command(epilog=doctors.SETTINGS)(doctors.doctor)
app.command("estimate", epilog=estimates.SETTINGS)(estimates.estimate_)
app.command(epilog=status.SETTINGS)(status.status)
app.command(epilog=exporting.SETTINGS)(exporting.exporter)
app.command(epilog=reconciliations.SETTINGS)(reconciliations.reconcile)


class Document(StrEnum):
    """The documents that people write, and those that commands print."""

    JOB = "job"
    MODELS = "models"
    STATUS = "status"
    CONFIG = "config"
    ESTIMATE = "estimate"


_MODELS: Mapping[Document, tuple[type[BaseModel], JsonSchemaMode]] = {
    Document.JOB: (Job, "validation"),
    Document.MODELS: (ModelsFile, "validation"),
    Document.STATUS: (StatusDocument, "serialization"),
    Document.CONFIG: (ConfigDocument, "serialization"),
    Document.ESTIMATE: (EstimateDocument, "serialization"),
}


@app.command(epilog=named("DATABASE_URL"))
def migrate(
    roles: Annotated[
        bool, typer.Option("--roles", help="Give each program's role its rights, and no others.")
    ] = False,
) -> None:
    """Bring the database (DATABASE_URL) to the newest schema; safe to repeat and to run from several places.

    Example: DATABASE_URL=postgresql://headrace@db:5432/headrace headrace migrate
    """
    database = _settings(DatabaseSettings.read)
    try:
        revision = run_migrations(database, with_roles=roles)
    except RolesMissingError as error:
        advice = "As an administrator of the server: psql -f deploy/postgres/roles.sql"
        stop(ExitCode.WRONG_SETTINGS, f"database: {error}. {advice}")
    except OperationalError as error:
        stop(ExitCode.UNREACHABLE, f"database: {problem(error)}. Check DATABASE_URL and that the server is up.")
    except (SQLAlchemyError, UnicodeError) as error:
        advice = "Run it as a user who may create tables, on a database whose encoding is UTF8."
        stop(ExitCode.FAILED, f"database: {problem(error)}. {advice}")
    typer.echo(f"schema headrace is at revision {revision}")


@app.command(epilog=named("KAFKA_BOOTSTRAP_SERVERS", "DEAD_LETTER_TOPIC", "PROMPTS_TOPIC", "PROMPTS_PARTITIONS"))
def topics(
    jobs: Annotated[list[str] | None, typer.Argument(help="Jobs to make a prompts topic for.")] = None,
) -> None:
    """Make the dead-letter topic (DEAD_LETTER_TOPIC) and the prompts topics, PROMPTS_PARTITIONS each.

    Example: headrace topics reviews tickets
    """
    kafka, names = _settings(KafkaSettings.read), _settings(TopicSettings.read)
    try:
        made = make_topics(kafka, names, jobs or [])
    except KafkaUnreachableError as error:
        stop(ExitCode.UNREACHABLE, f"kafka: {error}. Check KAFKA_BOOTSTRAP_SERVERS and that the broker is up.")
    except TopicRefusedError as error:
        stop(ExitCode.FAILED, f"kafka: {error}. Ask for the right to create topics, or have them made.")
    except SettingsError as error:
        stop(ExitCode.WRONG_SETTINGS, str(error))
    for name, new in made.items():
        typer.echo(f"{name}: {'made' if new else 'exists'}")


@app.command(epilog="Settings: none.")
def schema(document: Document) -> None:
    """Print the JSON Schema of a job file, of a models file, or of what a command prints with --json.

    Example: headrace schema job > job.schema.json
    """
    model, mode = _MODELS[document]
    typer.echo(json.dumps(model.model_json_schema(by_alias=True, mode=mode), indent=2, ensure_ascii=False))


def main() -> None:
    """Entry of the console script."""
    app()


def _settings(read: Callable[[Mapping[str, str]], T]) -> T:
    try:
        return read(os.environ)
    except SettingsError as error:
        stop(ExitCode.WRONG_SETTINGS, str(error))
