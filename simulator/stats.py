"""Counts of everything the endpoint did, in all and per id."""

from __future__ import annotations

from collections import Counter
from typing import Any

MAX_IDS = 2_000_000
"""Ids counted one by one, about 130 bytes each; calls of further ids are counted as `overflow`."""


class Stats:
    """The counts since a start or a reset. A call reports its end to the counts it began in."""

    def __init__(self, max_ids: int = MAX_IDS) -> None:
        self._max_ids = max_ids
        self._calls: dict[str, int] = {}
        self._bills: dict[str, int] = {}
        self.totals: Counter[str] = Counter(calls=0, answers=0, billed=0, limited=0, overflow=0)
        self.status: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.headers: Counter[str] = Counter()
        self.in_flight = 0
        self.max_in_flight = 0

    def begin(self, call_id: str, attempt: int | None) -> int:
        """Counts a call that arrived; says the how-manieth of its id it is (its own word, if ids overflow)."""
        self.totals["calls"] += 1
        number = self._calls.get(call_id, 0) + 1
        if number == 1 and len(self._calls) >= self._max_ids:
            self.totals["overflow"] += 1
            return attempt or 1
        self._calls[call_id] = number
        return number

    def open(self) -> None:
        """Counts a call that was let in or queued as in flight."""
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def bill(self, call_id: str) -> None:
        """Counts an answer that a provider would charge for."""
        self.totals["billed"] += 1
        if call_id in self._calls:
            self._bills[call_id] = self._bills.get(call_id, 0) + 1

    def end(self, outcome: str, status: int | None, *, was_open: bool) -> None:
        """Counts how a call ended; `status` is None when no status line was sent."""
        self.in_flight -= was_open
        self.outcomes[outcome] += 1
        if outcome == "answered":
            self.totals["answers"] += 1
        if outcome == "limited":
            self.totals["limited"] += 1
        if status is not None:
            self.status[status] += 1

    def shown(self, *, with_ids: bool) -> dict[str, Any]:
        """The counts as JSON-ready values; with ids, `ids` maps each id to its calls and bills."""
        shown: dict[str, Any] = {
            **self.totals,
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "distinct_ids": len(self._calls),
            "duplicate_bills": sum(self._bills.values()) - len(self._bills),
            "status": {str(status): count for status, count in sorted(self.status.items())},
            "outcomes": dict(sorted(self.outcomes.items())),
            "rules": dict(sorted(self.rules.items())),
            "headers": dict(sorted(self.headers.items())),
        }
        if with_ids:
            bills = self._bills
            shown["ids"] = {key: {"calls": n, "billed": bills.get(key, 0)} for key, n in self._calls.items()}
        return shown
