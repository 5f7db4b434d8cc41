"""`headrace doctor`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from control.dead_letters import terminal
from control.doctor import showing
from control.doctor.examining import examine
from control.doctor.finding import exit_code
from control.help import settings as named

SETTINGS = (
    f"{named('KAFKA_BOOTSTRAP_SERVERS', 'DATABASE_URL', 'LLM_BASE_URL', 'MODELS_FILE')} And all others of a worker,"
    " see .env.example. Exit codes: 0 nothing is wrong, 1 something is, 2 wrong settings or job file, 4 a service"
    " cannot be reached; of several 2 before 4 before 1."
)
_Ask = Annotated[bool, typer.Option("--ask", help="Ask each endpoint one row of at most 5 tokens; it may cost.")]
_Job = Annotated[Path | None, typer.Option("--job", metavar="FILE", help="Check this job file too.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def doctor(ask: _Ask = False, job: _Job = None, as_json: _Json = False) -> None:
    """Check everything that a run needs, all at once: settings, Kafka, Postgres, workers, endpoints.

    Changes nothing, and shows no key, no password and no words of a provider.

    Example: headrace doctor --ask --job reviews.yaml
    """
    findings = examine(os.environ, lambda: datetime.now(UTC), ask=ask, job_file=job)
    console = terminal.console()
    if as_json:
        typer.echo(terminal.as_json(showing.document(findings)))
    elif console.is_terminal:
        console.print(showing.screen(findings))
    else:
        typer.echo("\n".join(showing.lines(findings)))
    raise typer.Exit(exit_code(findings))
