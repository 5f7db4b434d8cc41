"""All that the page tells, read in one snapshot of the database: groups and sums, never the rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from psycopg.rows import dict_row

from control.database import Connection, translated
from control.report import page_statements as statements
from control.report.difference import LONGEST_LABEL, MOST_FIELDS, Field, labelled
from control.report.scale import Window, window
from control.status.document import RunStatus
from control.status.moment import document
from control.status.reading import facts
from schemas.settings import SettingsError

# All of them: a job has few, and its totals are those of every run.
_RUNS = 1_000_000
_SHOWN_IDS = 10


@dataclass(frozen=True, slots=True)
class Ended:
    """Rows that ended in one stretch of time."""

    stretch: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Quantiles of the calls that ended in one stretch of time, in milliseconds."""

    stretch: int
    calls: int
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Calls that ended the same way; a retry is each call after the first of one claim."""

    outcome: str
    calls: int
    retries: int
    maybe_billed: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What one model at one endpoint used and cost; `unknown_calls` are in no sum."""

    model: str
    endpoint: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    low_usd: Decimal
    high_usd: Decimal
    unknown_calls: int


@dataclass(frozen=True, slots=True)
class Label:
    """How many answers carry a label."""

    value: str
    rows: int


@dataclass(frozen=True, slots=True)
class Slow:
    """One slow call."""

    id: str
    latency_ms: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Retried:
    """An id that was called for more than once."""

    id: str
    calls: int


@dataclass(frozen=True, slots=True)
class Report:
    """What the page is made of; `run` is None for all runs, `window` while nothing has ended."""

    job: str
    run: str | None
    at: datetime
    runs: Sequence[RunStatus]
    window: Window | None
    ended: Sequence[Ended]
    latencies: Sequence[Latency]
    outcomes: Sequence[Outcome]
    spent: Sequence[Spent]
    labels: dict[str, list[Label]]
    slowest: Sequence[Slow]
    retried: Sequence[Retried]


def read(connection: Connection, job: str, run: str | None) -> Report:
    """Read one snapshot; raises `SettingsError` for what nobody knows, and the errors of `control.database`."""
    with translated(), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return _Reader(connection, job, run).report()


class _Reader:
    def __init__(self, connection: Connection, job: str, run: str | None) -> None:
        self._connection, self._job, self._run = connection, job, run

    def report(self) -> Report:
        status = document(facts(self._connection, self._job, _RUNS), None)
        times = self._rows(statements.TIMES)[0]
        cut = None if times["first"] is None else window(times["first"], times["last"])
        stretches = {} if cut is None else {"width": cut.width, "first": cut.first}
        return Report(
            self._job,
            self._run,
            status.at,
            _chosen(status.runs, self._job, self._run),
            cut,
            [Ended(**row) for row in self._rows(statements.ENDED, **stretches)] if cut else [],
            [Latency(**row) for row in self._rows(statements.LATENCIES, **stretches)] if cut else [],
            [Outcome(**row) for row in self._rows(statements.OUTCOMES)],
            [Spent(**row) for row in self._rows(statements.SPENT)],
            self._labels(),
            [Slow(**row) for row in self._rows(statements.SLOWEST, shown=_SHOWN_IDS)],
            [Retried(**row) for row in self._rows(statements.RETRIED, shown=_SHOWN_IDS)],
        )

    def _labels(self) -> dict[str, list[Label]]:
        fields = self._rows(statements.FIELDS, longest=LONGEST_LABEL, fields=MOST_FIELDS + 1)
        names = labelled(Field(**row) for row in fields)
        found: defaultdict[str, list[Label]] = defaultdict(list)
        for row in self._rows(statements.LABELS, names=names) if names else []:
            found[row["name"]].append(Label(row["value"], row["rows"]))
        return dict(found)

    def _rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement.encode(), {"job": self._job, "run": self._run, **values}).fetchall()


def _chosen(runs: Sequence[RunStatus], job: str, run: str | None) -> list[RunStatus]:
    chosen = [one for one in runs if run is None or one.run == run]
    if chosen:
        return chosen
    if not runs:
        raise SettingsError("options", [f"no job {job!r}: it has no run and no result"])
    known = ", ".join(one.run or "(none)" for one in runs[-5:])
    raise SettingsError("options", [f"--run {run!r}: no such run; the newest are: {known}"])
