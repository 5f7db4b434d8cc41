"""How a demo ends when it does not end well."""

from __future__ import annotations


class DemoError(Exception):
    """A stage failed; says what, where and the next step."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
