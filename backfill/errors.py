"""What ends a run early: one clear line each, and the exit code that goes with it."""

from __future__ import annotations

from schemas.statuses import ExitCode


class BackfillError(Exception):
    """Ends the run; its text says what is wrong, where, and the next step, and never holds an answer or a key."""

    exit_code = ExitCode.FAILED


class WrongJobError(BackfillError):
    """The job file, the arguments or the settings do not fit what was found."""

    exit_code = ExitCode.WRONG_SETTINGS


class SourceGoneError(WrongJobError):
    """The source is not there, or empty: the job file names another place, or somebody is writing it anew."""


class UnreachableError(BackfillError):
    """The database gave no answer."""

    exit_code = ExitCode.UNREACHABLE


class NotAllowedError(BackfillError):
    """The database user may not do this."""


class StoppedError(BackfillError):
    """Somebody stopped the run on purpose."""

    exit_code = ExitCode.STOPPED


class AlreadyRunningError(BackfillError):
    """Another backfill writes the same target: nothing is wrong, and nothing was done."""

    exit_code = ExitCode.DONE


class RunFailedError(BackfillError):
    """The run itself went wrong; the target is as it was."""


class ReadError(BackfillError):
    """A partition of the results could not be read; raised in a Spark task, so that Spark fails the task."""
