"""What ends a run early: one clear line each, and the exit code that goes with it."""

from __future__ import annotations

from schemas.statuses import ExitCode


class ProducerError(Exception):
    """Ends the run; its text says what is wrong, where, and the next step, and never holds a prompt or a key."""

    exit_code = ExitCode.FAILED


class WrongJobError(ProducerError):
    """The job file, the arguments or the settings do not fit what was found."""

    exit_code = ExitCode.WRONG_SETTINGS


class UnreachableError(ProducerError):
    """A service gave no answer."""

    exit_code = ExitCode.UNREACHABLE


class RunFailedError(ProducerError):
    """The run itself went wrong: exit code 1."""


class DeliveryError(ProducerError):
    """Not every message was acknowledged; raised in a Spark task, so that Spark fails the task."""


class StoppedError(ProducerError):
    """The run was ended on purpose: by somebody, or by its canary."""

    exit_code = ExitCode.STOPPED


class CanaryError(StoppedError):
    """The canary has shown that the rest had better not be published."""
