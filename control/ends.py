"""How a command ends when something outside it is wrong: one exit code and one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn, TypeAlias

import typer

from control.database import DatabaseRefusedError, DatabaseUnreachableError, SchemaMissingError
from control.topics import KafkaUnreachableError, TopicRefusedError
from schemas.settings import SettingsError
from schemas.statuses import ExitCode

Ends: TypeAlias = Mapping[type[Exception], tuple[ExitCode, str]]
ENDS: Ends = {
    SettingsError: (ExitCode.WRONG_SETTINGS, "{}"),
    SchemaMissingError: (ExitCode.WRONG_SETTINGS, "database: {}: run `headrace migrate`"),
    KafkaUnreachableError: (
        ExitCode.UNREACHABLE,
        "kafka: {}. Check KAFKA_BOOTSTRAP_SERVERS and that the broker is up.",
    ),
    TopicRefusedError: (ExitCode.FAILED, "kafka: {}. Ask for the right to it, or have it made."),
    DatabaseUnreachableError: (ExitCode.UNREACHABLE, "database: {}. Check DATABASE_URL and that the server is up."),
    DatabaseRefusedError: (ExitCode.FAILED, "database: {}."),
}


@contextmanager
def ending(others: Ends | None = None) -> Iterator[None]:
    """Turn the errors of `ENDS`, and those of `others`, into the end of the command."""
    ends = {**ENDS, **(others or {})}
    try:
        yield
    except tuple(ends) as error:
        code, text = next(end for kind, end in ends.items() if isinstance(error, kind))
        stop(code, text.format(error))


def stop(code: ExitCode, message: str) -> NoReturn:
    """End the command with a line on standard error."""
    typer.echo(message, err=True)
    raise typer.Exit(code)
