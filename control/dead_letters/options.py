"""The options of the commands: one dataclass a command, since many of them share the filters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from control.dead_letters.filters import Asked
from schemas.statuses import LetterKind

O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """Which letters are meant."""

    kind: Annotated[LetterKind | None, typer.Option(help="Unreadable messages or failed rows; both if absent.")] = (
        None
    )
    job: Annotated[str | None, typer.Option(help="Of this job.")] = None
    id: Annotated[str | None, typer.Option(help="Of this id.")] = None
    reason: Annotated[list[str] | None, typer.Option(help="With this reason; may be repeated.")] = None
    topic: Annotated[str | None, typer.Option(help="That came from this topic.")] = None
    since: Annotated[str | None, typer.Option(help="That died at or after this time (UTC), or 12h ago.")] = None
    until: Annotated[str | None, typer.Option(help="That died before this time, or longer ago than this.")] = None
    limit: Annotated[int | None, typer.Option(help="No more than so many; all if absent.")] = None

    @property
    def asked(self) -> Asked:
        """The filters, unchecked."""
        values = {name: getattr(self, name) for name in Asked.__slots__}
        return Asked(**{**values, "reason": tuple(self.reason or ())})


@dataclass(frozen=True, kw_only=True)
class ListOptions(FilterOptions):
    """Options of `list`."""

    summary: Annotated[bool, typer.Option("--summary", help="The counts by kind and reason alone.")] = False
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(FilterOptions):
    """Options of `replay`."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be sent, and send nothing.")] = False
    again: Annotated[bool, typer.Option("--again", help="Those too that were replayed before.")] = False
    json: Annotated[bool, typer.Option("--json", help="The counts as one JSON object.")] = False


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Options of `show`."""

    ref: Annotated[str | None, typer.Argument(help="topic/partition/offset of an unreadable message.")] = None
    job: Annotated[str | None, typer.Option(help="Job of a row.")] = None
    id: Annotated[str | None, typer.Option(help="Id of a row.")] = None
    payload: Annotated[
        bool, typer.Option("--payload", help="The message, and what the endpoint said: may be personal data.")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False


def takes(options: type[O]) -> Callable[[Callable[[O], None]], Callable[..., None]]:
    """Let a command take the fields of a dataclass as its options, for typer to see them one by one."""
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)  # type: ignore[arg-type]
    ]

    def wrap(command: Callable[[O], None]) -> Callable[..., None]:
        def run(**values: Any) -> None:
            command(options(**values))

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return wrap
