"""`headrace config show`."""

from __future__ import annotations

import os
from typing import Annotated

import typer
import yaml

from control.config import showing
from control.config.collecting import Programs, collect
from control.dead_letters import terminal
from control.ends import ending
from schemas.programs import PROGRAMS
from schemas.settings import SettingsError

SETTINGS = (
    "Settings: all of .env.example, those of the simulator apart; NO_COLOR. Exit codes: 0 nothing is wrong, 2"
    " something is. `headrace schema config` describes what --json prints."
)
app = typer.Typer(help="The settings as they hold on this machine.", no_args_is_help=True)
_Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
_Program = Annotated[
    str | None, typer.Option("--program", help=f"What this program reads: {', '.join(PROGRAMS)}; all if absent.")
]


@app.command(epilog=SETTINGS)
def show(as_json: _Json = False, program: _Program = None) -> None:
    """Show every setting with its value and where it comes from; no secret, and no service is asked.

    A value comes from its default, the environment, the file that NAME_FILE names, or the models file.

    Example: headrace config show --program worker
    """
    with ending():
        found = collect(_programs(program), os.environ, yaml.safe_load)
    console = terminal.console()
    if as_json:
        typer.echo(terminal.as_json(found.model_dump(mode="json")))
    elif console.is_terminal:
        console.print(showing.screen(found))
    else:
        typer.echo("\n".join(showing.lines(found)))
    raise typer.Exit(found.exit_code)


def _programs(name: str | None) -> Programs:
    if name is not None and name not in PROGRAMS:
        raise SettingsError("options", [f"--program: there is no program {name}; there are {', '.join(PROGRAMS)}"])
    return {known: groups for known, groups in PROGRAMS.items() if name in (None, known)}
