"""From what was read to what is told: pure arithmetic over counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from control.status.document import (
    CircuitStatus,
    End,
    Lag,
    LimitStatus,
    RunStatus,
    Spend,
    StatusDocument,
    WorkerStatus,
)
from control.status.eta import Eta, Rate, eta, rate
from schemas.statuses import JobState, Reason, Status

Row: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, str]
_COUNTED = ("read", "rejected", "deduplicated", "skipped", "published")


@dataclass(frozen=True, slots=True)
class Facts:
    """The rows of each statement, read in one snapshot."""

    at: datetime
    runs: Sequence[Row]
    counts: Sequence[Row]
    costs: Sequence[Row]
    workers: Sequence[Row]
    circuits: Sequence[Row]
    limits: Sequence[Row]


@dataclass(slots=True)
class Tally:
    """The rows of one run, counted."""

    succeeded: int = 0
    in_flight: int = 0
    released: int = 0
    failed: Counter[Reason] = field(default_factory=Counter)
    unexplained: int = 0
    ended: Counter[int] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        """Take in one group of rows."""
        rows, status = row["rows"], row["status"]
        if row["seconds_ago"] is not None:
            self.ended[row["seconds_ago"]] += rows
        if status == Status.SUCCEEDED:
            self.succeeded += rows
        elif status == Status.CLAIMED:
            self.in_flight += rows if row["live"] else 0
            self.released += 0 if row["live"] else rows
        elif row["reason"] is None:
            self.unexplained += rows
        else:
            self.failed[Reason(row["reason"])] += rows

    @property
    def failures(self) -> int:
        """All that failed, those too that somebody wrote without a reason."""
        return self.failed.total() + self.unexplained


def document(facts: Facts, lag: Sequence[Lag] | None, problems: Iterable[str] = ()) -> StatusDocument:
    """Put everything together; `lag` is None when Kafka did not answer."""
    tallies: defaultdict[Key, Tally] = defaultdict(Tally)
    for row in facts.counts:
        tallies[row["job"], row["run"]].add(row)
    costs = {(row["job"], row["run"]): row for row in facts.costs}
    recorded = {(row["job"], row["run"]): row for row in facts.runs}
    # Messages may name a run that no producer has recorded, or none: all that is known of it are its rows.
    runs = {key: row for key, row in recorded.items() if row["shown"]}
    runs |= {key: _unrecorded(key) for key in tallies if key not in recorded}
    behind = _by_topic(lag)
    return StatusDocument(
        at=facts.at,
        runs=[
            _run(row, tallies.get(key, Tally()), costs.get(key), behind)
            for key, row in sorted(runs.items(), key=_age)
        ],
        workers=[WorkerStatus(**row) for row in facts.workers],
        circuits=[CircuitStatus(**row) for row in facts.circuits],
        limits=[LimitStatus(**row) for row in facts.limits],
        lag=None if lag is None else list(lag),
        problems=list(problems),
    )


def _unrecorded(key: Key) -> Row:
    return {
        **dict.fromkeys(RunStatus.model_fields),
        "job": key[0],
        "run": key[1],
        "budget_usd": None,
        "budget_tokens": None,
    }


def _age(item: tuple[Key, Row]) -> tuple[str, bool, str, str]:
    (job, run), row = item
    return job, row["created_at"] is not None, str(row["created_at"]), run


def _by_topic(lag: Sequence[Lag] | None) -> Mapping[str, int] | None:
    if lag is None:
        return None
    found: Counter[str] = Counter()
    for part in lag:
        found[part.topic] += part.lag
    return found


def _run(row: Row, tally: Tally, costs: Row | None, behind: Mapping[str, int] | None) -> RunStatus:
    counted = {name: row[name] if row["read"] else None for name in _COUNTED}
    left = _left(row, counted["published"], tally, behind)
    speed = rate(tally.ended)
    bought = {name: value for name, value in (costs or {}).items() if name in Spend.model_fields}
    return RunStatus(
        **{name: row[name] for name in ("job", "run", "state", "paused_for", "topic", "created_at", "finished_at")},
        **counted,
        succeeded=tally.succeeded,
        failed=tally.failures,
        failed_by_reason=dict(sorted(tally.failed.items())),
        in_flight=tally.in_flight,
        released=tally.released,
        left=left,
        rows_per_second=_per_second(tally, speed),
        eta=None if _stands(row) else _end(eta(left, speed)),
        spend=Spend(**bought, budget_usd=row["budget_usd"], budget_tokens=row["budget_tokens"]),
    )


def _left(row: Row, published: int | None, tally: Tally, behind: Mapping[str, int] | None) -> int | None:
    """Rows of another run may have taken over some of these, so the rest alone would stay above nothing for ever."""
    if row["state"] == JobState.DONE:
        return 0
    if published is None:
        return None
    rest = max(0, published - tally.succeeded - tally.failures)
    known = behind is not None and row["topic"] in behind
    return min(rest, behind[row["topic"]]) if behind is not None and known else rest


def _per_second(tally: Tally, speed: Rate | None) -> float | None:
    if speed is not None:
        return speed.mean
    return None if tally.ended else 0.0


def _stands(row: Row) -> bool:
    return bool(row["state"] == JobState.PAUSED)


def _end(found: Eta | None) -> End | None:
    if found is None:
        return None
    return End(seconds=found.seconds, earliest_seconds=found.earliest, latest_seconds=found.latest)
