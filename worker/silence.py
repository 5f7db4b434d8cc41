"""Telemetry of a worker that nobody scrapes."""

from __future__ import annotations

from worker.core.outcome import Outcome


class Silence:
    """Hears everything and tells nobody: what a task inside Spark has done, its outcomes and the tables say."""

    def message(self, outcome: str, job: str) -> None:
        """A message has ended."""

    def call(self, alias: str, endpoint: str, outcome: Outcome, seconds: float) -> None:
        """A call has ended."""

    def paused(self, endpoint: str, seconds: float) -> None:
        """A server has asked to be left alone for so much longer."""

    def lost_call(self) -> None:
        """A former owner may have made a call that nobody has seen the end of."""

    def retry(self, reason: str) -> None:
        """A row will be asked again."""

    def dead_letter(self, reason: str) -> None:
        """A row could not be read."""

    def wrote(self, rows: int, seconds: float) -> None:
        """A batch is durable."""
