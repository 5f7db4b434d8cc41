"""What one check has found, and which exit code all of them make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from schemas.statuses import ExitCode


class Level(StrEnum):
    """How well it stands: nothing to do, something to know, something that keeps a run from its end."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: where, what, and the next step; `code` is what it asks the command to end with."""

    level: Level
    about: str
    said: str
    next_step: str = ""
    code: ExitCode = ExitCode.DONE


# The first of these that any finding asks for is the command's: wrong settings may be why nobody answers.
_WORST = (ExitCode.WRONG_SETTINGS, ExitCode.UNREACHABLE, ExitCode.FAILED, ExitCode.DONE)


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """Give the exit code of the worst finding."""
    return min((finding.code for finding in findings), key=_WORST.index, default=ExitCode.DONE)


def ok(about: str, said: str) -> Finding:
    """It is as it should be."""
    return Finding(Level.OK, about, said)


def warn(about: str, said: str, next_step: str) -> Finding:
    """It may be meant so, or not."""
    return Finding(Level.WARN, about, said, next_step)


def wrong(about: str, said: str, next_step: str) -> Finding:
    """It is reached, and it is not right."""
    return Finding(Level.FAIL, about, said, next_step, ExitCode.FAILED)


def missettled(about: str, said: str, next_step: str) -> Finding:
    """A setting or a file of settings is wrong."""
    return Finding(Level.FAIL, about, said, next_step, ExitCode.WRONG_SETTINGS)


def away(about: str, said: str, next_step: str) -> Finding:
    """Nobody answers."""
    return Finding(Level.FAIL, about, said, next_step, ExitCode.UNREACHABLE)
