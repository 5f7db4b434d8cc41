"""What one run of a job changed against another: the shape of it, and which answers may be shown as labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

# A label is short, and one of few: anything else is somebody's text, and only compared.
LONGEST_LABEL = 80
MOST_LABELS = 50
MOST_FIELDS = 20


@dataclass(frozen=True, slots=True)
class Field:
    """One scalar field of the answers, `answer` for one that is plain text."""

    name: str
    distinct_values: int
    answers: int
    long: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """How many rows, and how many requests, went from one label to another; None is no label."""

    old: str | None
    new: str | None
    rows: int
    requests: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of both runs; `not_compared` has no answer in one of them, `asked_otherwise` another request."""

    rows_before: int
    rows_after: int
    added: int
    gone: int
    asked_otherwise: int
    requests_otherwise: int
    changed: int
    changed_requests: int
    same: int
    not_compared: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What the runs after the old one up to the new one cost; without an upper end if a cost is unknown."""

    calls: int
    low_usd: Decimal
    high_usd: Decimal
    unknown_calls: int
    low_tokens: int
    high_tokens: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The whole comparison; `labels` has a matrix for each field whose values may be shown."""

    job: str
    against: str
    run: str
    counts: Counts
    cost: Cost
    labels: dict[str, list[Cell]]

    def document(self) -> dict[str, Any]:
        """Make it a JSON document; an upper end that nobody knows is null."""
        document = asdict(self)
        cost = document["cost"]
        cost["low_usd"] = str(self.cost.low_usd)
        cost["high_usd"] = None if self.cost.unknown_calls else str(self.cost.high_usd)
        return document


def labelled(fields: Iterable[Field]) -> list[str]:
    """Choose the fields whose values are labels: short, few, and each given twice on the average."""
    found = list(fields)
    if len(found) > MOST_FIELDS:
        return []
    return [f.name for f in found if not f.long and f.distinct_values <= min(MOST_LABELS, f.answers // 2)]
