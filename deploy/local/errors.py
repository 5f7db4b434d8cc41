"""What can go wrong with the local stack; each message is one line: what, where, next step."""

from __future__ import annotations


class LocalStackError(Exception):
    """The local stack could not do what was asked."""

    exit_code = 1


class StartError(LocalStackError):
    """A server ended while it was starting, or could not be given what it needs."""


class ChecksumError(LocalStackError):
    """A downloaded file is not the one that the lock file names."""


class MissingError(LocalStackError):
    """A program that the stack needs is not on this machine."""

    exit_code = 2


class StoppedError(LocalStackError):
    """The start was interrupted on purpose."""

    exit_code = 3


class UnreachableError(LocalStackError):
    """A server or a package registry did not answer."""

    exit_code = 4


_CAUSES = (
    ("No space left on device", "the disk is full; free some space, then start again"),
    ("Address already in use", "a port it needs is taken; stop the program that holds it, then start again"),
    ("could not create shared memory segment", "the system's shared memory is used up (see SHMMNI, SHMALL)"),
    ("Insufficient space for shared memory", "the disk of the temporary folder is full; free some space"),
    ("insufficient memory for the Java Runtime", "there is not enough memory for the Java heap; free some"),
    ("Could not reserve enough space", "there is not enough memory for the Java heap; free some"),
)


def known_cause(log_text: str) -> str | None:
    """Return cause and next step when a program logged a fault of the machine; None otherwise."""
    return next((cause for sign, cause in _CAUSES if sign in log_text), None)


def explain(log_text: str) -> str:
    """Say in one clause why a program failed, from what it logged: a known cause, else its last error line."""
    cause = known_cause(log_text)
    if cause:
        return cause
    lines = [line.strip() for line in log_text.splitlines() if line.strip()]
    errors = [line for line in lines if "FATAL" in line or "ERROR" in line or "Exception" in line]
    last = (errors or lines or ["it logged nothing"])[-1]
    return f'its log says "{last[:200]}"'
