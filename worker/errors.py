"""What can go wrong beyond a single call.

WorkerError
├── StoreUnavailableError       the same statement may be sent again
│   └── SchemaMissingError      `headrace migrate` has not run yet
├── StoreRefusedError           something in the statement's data; never the same statement again
├── FencedError                 another claim of the row has come between: its work goes back to the store's word
├── WithdrawnError              orders have come for the row: it is not asked any further
├── WrongSettingsError          no repetition helps: exit code 2
└── StopAskedError              the stop came before the work had begun
"""

from __future__ import annotations


class WorkerError(Exception):
    """Root of the worker's own errors."""


class StoreUnavailableError(WorkerError):
    """The store did not take the statement; it may be sent again, an ambiguous end included."""


class SchemaMissingError(StoreUnavailableError):
    """The tables are not there: `headrace migrate` has not run on this database."""


class StoreRefusedError(WorkerError):
    """The store will never take this statement as it is: something in its data."""


class FencedError(WorkerError):
    """Another claim of this row has come between, so no further call is made for this one."""


class WithdrawnError(WorkerError):
    """Orders have come for this row before its next call; `retries` is how often it had been asked again."""

    def __init__(self, retries: int = 0) -> None:
        super().__init__()
        self.retries = retries


class WrongSettingsError(WorkerError):
    """The settings cannot work, as a first answer has shown; says which one and what to do."""


class StopAskedError(WorkerError):
    """A stop was asked for during start-up."""
