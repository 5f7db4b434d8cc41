"""A store in memory that obeys the same contract as Postgres."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from schemas.database import LEASE_SECONDS, MAX_STARTS
from schemas.statuses import Billed, Reason, Status
from worker.core.claims import Claim, Verdict
from worker.core.rows import AttemptRow, FinishedRow
from worker.ports import Work

Key = tuple[str, str]
Row = dict[str, Any]
_TICK = timedelta(microseconds=1)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_FRESH: Row = {
    **dict.fromkeys("result result_json finish_reason prompt_tokens completion_tokens latency_ms".split()),
    **dict.fromkeys("result_length model_answered endpoint cost_usd error_msg reason completed_at".split()),
    "sanitised": False,
    "retry_count": 0,
}


class Trouble(Protocol):
    """What may happen on the way to a store and back; both may wait and raise `StoreUnavailableError`."""

    async def before(self) -> None:
        """The statement is on its way."""

    async def after(self) -> None:
        """The statement has taken effect, its answer is on its way."""


class Calm:
    """No trouble."""

    async def before(self) -> None:
        return

    async def after(self) -> None:
        return


@dataclass
class Tables:
    """What all stores of one database share; `clock` gives its Unix time."""

    clock: Callable[[], float]
    results: dict[Key, Row] = field(default_factory=dict)
    attempts: dict[Key, dict[tuple[int, datetime], Row]] = field(default_factory=dict)
    _last: datetime = _LONG_AGO

    def now(self) -> datetime:
        """The statement's instant: no two are the same."""
        self._last = max(self._last + _TICK, datetime.fromtimestamp(self.clock(), UTC))
        return self._last

    def calls(self, key: Key) -> list[Row]:
        """The ledger lines of a row, in the order of its claims and calls."""
        return [row for _, row in sorted(self.attempts.get(key, {}).items(), key=lambda item: item[0][::-1])]


class FakeStore:
    """Claims and answers in shared `tables`; `worker` is whose they are."""

    def __init__(self, tables: Tables, worker: str, trouble: Trouble | None = None) -> None:
        self.tables = tables
        self._worker = worker
        self._trouble = trouble or Calm()

    async def claim(self, works: Sequence[Work]) -> list[Claim]:
        await self._trouble.before()
        now = self.tables.now()
        claims = [self._claim(work, now) for work in works]
        await self._trouble.after()
        return claims

    async def finish(self, rows: Sequence[FinishedRow], attempts: Sequence[AttemptRow]) -> list[bool]:
        await self._trouble.before()
        now = self.tables.now()
        stored = [self._store(row, now) for row in rows]
        for attempt in attempts:
            self._record(asdict(attempt) | {"worker": self._worker})
        await self._trouble.after()
        return stored

    async def renew(self, works: Sequence[Work]) -> list[bool]:
        await self._trouble.before()
        until = self.tables.now() + timedelta(seconds=LEASE_SECONDS)
        held = self._held(works)
        for row in held:
            row["claimed_until"] = until
        await self._trouble.after()
        return [self.tables.results.get(work.key) in held for work in works]

    async def release(self, works: Sequence[Work]) -> None:
        await self._trouble.before()
        now = self.tables.now()
        for row in self._held(works):
            row |= {"claimed_until": now, "worker": None, "starts": max(row["starts"] - 1, 0)}
        await self._trouble.after()

    def _claim(self, work: Work, now: datetime) -> Claim:
        held = self.tables.results.get(work.key)
        verdict = _judge(work, held, now)
        if held is not None and verdict is Verdict.LIVE and held["worker"] == self._worker:
            return Claim(Verdict.HELD, held["fence"], held["claimed_at"], self._calls_of(work.key))
        if verdict in (Verdict.DONE, Verdict.SUPERSEDED, Verdict.LIVE):
            return Claim(verdict)
        lost = held is not None and self._record_lost(work.key, held, now)
        attempts = self._calls_of(work.key)
        row = self._row(work, verdict, held, now)
        self.tables.results[work.key] = row
        return Claim(verdict, row["fence"], now, attempts, lost)

    def _row(self, work: Work, verdict: Verdict, held: Row | None, now: datetime) -> Row:
        crashed = verdict is Verdict.CRASHED
        continued = verdict in (Verdict.LOST, Verdict.RELEASED, Verdict.CRASHED)
        starts = held["starts"] if held and continued else 0
        row = _FRESH | {
            "job": work.prompt.job,
            "id": work.prompt.id,
            "run": work.prompt.run,
            "fingerprint": work.prompt.fingerprint,
            "status": Status.CLAIMED,
            "model": work.alias,
            "worker": self._worker,
            "claimed_until": now + timedelta(seconds=LEASE_SECONDS),
            "claimed_at": now,
            "published_at": work.published_at,
            "log": work.record.log,
            "log_offset": work.record.offset,
            "prompt_length": work.prompt.length,
            "fence": (held["fence"] if held else 0) + 1,
            "starts": starts + (not crashed),
        }
        if crashed:
            row |= {"status": Status.FAILED, "reason": Reason.CRASHED, "completed_at": now}
            row["error_msg"] = f"its owner died during each of {starts} starts"
        return row

    def _record_lost(self, key: Key, held: Row, now: datetime) -> bool:
        if held["status"] != Status.CLAIMED or held["worker"] is None:
            return False
        claimed_at = held["claimed_at"]
        before = (attempt for attempt, at in self.tables.attempts.get(key, {}) if at <= claimed_at)
        line = {
            **{name: held[name] for name in ("job", "id", "run", "model", "worker", "claimed_at")},
            **dict.fromkeys(
                "http_status prompt_tokens completion_tokens latency_ms cost_usd endpoint detail cost_bound_usd"
                " tokens_bound".split()
            ),
            "attempt": 1 + max(before, default=0),
            "outcome": "lost",
            "billed": Billed.MAYBE,
            "started_at": claimed_at,
            "finished_at": now,
        }
        self._record(line)
        return True

    def _record(self, line: Row) -> None:
        lines = self.tables.attempts.setdefault((line["job"], line["id"]), {})
        name = (line["attempt"], line["claimed_at"])
        if name not in lines or lines[name]["outcome"] == "lost":
            lines[name] = line

    def _store(self, row: FinishedRow, now: datetime) -> bool:
        held = self.tables.results.get((row.job, row.id))
        if held is None or held["fence"] != row.fence:
            return False
        if held["status"] == Status.CLAIMED:
            held |= asdict(row) | {"worker": self._worker, "claimed_until": None, "completed_at": now}
        return True

    def _held(self, works: Sequence[Work]) -> list[Row]:
        claims = [(self.tables.results.get(work.key), work.claim) for work in works]
        return [
            row
            for row, claim in claims
            if row and claim and row["fence"] == claim.fence and row["status"] == "claimed"
        ]

    def _calls_of(self, key: Key) -> int:
        return max((attempt for attempt, _ in self.tables.attempts.get(key, {})), default=0)


def _judge(work: Work, held: Row | None, now: datetime) -> Verdict:
    if held is None:
        return Verdict.NEW
    older, later = _order(work, held)
    if held["fingerprint"] != work.prompt.fingerprint:
        return Verdict.SUPERSEDED if older else Verdict.NEWER
    if held["status"] != Status.CLAIMED:
        another_run = work.prompt.run is None or work.prompt.run != held["run"]
        return Verdict.AGAIN if held["status"] == Status.FAILED and later and another_run else Verdict.DONE
    return _judge_claimed(held, now)


def _judge_claimed(held: Row, now: datetime) -> Verdict:
    if held["claimed_until"] > now:
        return Verdict.LIVE
    if held["worker"] is None:
        return Verdict.RELEASED
    return Verdict.CRASHED if held["starts"] >= MAX_STARTS else Verdict.LOST


def _order(work: Work, held: Row) -> tuple[bool, bool]:
    """Whether a message is older or later than the one that holds the row: by offset within a log, else by time."""
    if held["log"] == work.record.log:
        return work.record.offset < held["log_offset"], work.record.offset > held["log_offset"]
    published = work.published_at
    if published is None or held["published_at"] is None:
        return False, False
    return published < held["published_at"], published > held["published_at"]
