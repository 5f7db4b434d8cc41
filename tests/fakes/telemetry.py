"""Telemetry that remembers."""

from __future__ import annotations

from collections import Counter

from worker.core.outcome import Outcome


class FakeTelemetry:
    """Counts what the main path tells of itself."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        self.calls: list[tuple[str, str, Outcome, float]] = []
        self.lost = 0
        self.paused_seconds: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.letters: Counter[str] = Counter()
        self.writes: list[int] = []

    def message(self, outcome: str, job: str) -> None:
        self.messages[outcome] += 1

    def call(self, alias: str, endpoint: str, outcome: Outcome, seconds: float) -> None:
        self.calls.append((alias, endpoint, outcome, seconds))

    def paused(self, endpoint: str, seconds: float) -> None:
        self.paused_seconds[endpoint] += seconds  # type: ignore[assignment]

    def lost_call(self) -> None:
        self.lost += 1

    def retry(self, reason: str) -> None:
        self.retries[reason] += 1

    def dead_letter(self, reason: str) -> None:
        self.letters[reason] += 1

    def wrote(self, rows: int, seconds: float) -> None:
        self.writes.append(rows)
