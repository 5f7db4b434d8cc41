"""Carries a canary out: its rows go through the whole chain, first one of each route, then the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from pyspark.sql import DataFrame

from producer import canary
from producer import columns as names
from producer.canary import Limits, Seen, Verdict, Word
from producer.chain import Chain
from producer.choosing import Chosen, Plan
from producer.columns import column
from producer.counts import publishable
from producer.errors import CanaryError, UnreachableError
from producer.explain import spark_errors
from producer.run import Judged, Run
from producer.voice import say
from producer.watch import NOTHING, Bill, Watch
from schemas.estimate import Forecast, Tier, total
from schemas.statuses import PausedFor

_LOOK_SECONDS = 0.5
_LINE_EVERY_SECONDS = 10.0
# So long may the database be away while a canary is waited for.
_PATIENCE_SECONDS = 60.0
_ROWS_PER_TASK = 5_000


@dataclass(slots=True)
class Trial:
    """One canary; only the driver's main thread touches it."""

    run: Run
    plan: Plan
    chain: Chain
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _published: int = 0
    _began: float = 0.0
    _paused: float = 0.0
    _told: float = 0.0
    _heard: float = 0.0
    _watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        run = self.run
        self._watch = Watch(run.settings.database.url, run.file.job.job, run.id)
        self._began = self._told = self._heard = self.clock()

    def carry_out(self, judged: Judged) -> Forecast:
        """Have the canary answered and wait for its end; raises `CanaryError` with the reason, or what has ended it.

        One row of each route goes first, so that a wrong key or model costs the five calls that the fleet takes to be
        sure of it, not one for each place that each worker has.
        """
        first = [self.plan.of(route)[0] for route in self.plan.sizes if self.plan.of(route)]
        others = [row for row in self.plan.chosen if row not in set(first)]
        rows = self._rows(judged.rows)
        try:
            self._try(rows, first)
            began = self.clock()
            self._try(rows, others)
        finally:
            rows.unpersist()
        return self._forecast(len(others) / max(self.clock() - began, _LOOK_SECONDS))

    def _rows(self, judged: DataFrame) -> DataFrame:
        """Read the chosen rows once; few partitions, since each task is a client of its own."""
        ids = [row.id for row in self.plan.chosen]
        wanted = publishable(judged).where(column(names.ID).isin(ids))
        rows = wanted.select(*map(column, (names.ID, names.FINGERPRINT, names.VALUE)))
        return rows.repartition(1 + len(ids) // _ROWS_PER_TASK).persist()

    def _try(self, rows: DataFrame, chosen: Sequence[Chosen]) -> None:
        if not chosen:
            return
        with spark_errors():
            part = rows.where(column(names.ID).isin([row.id for row in chosen]))
        self.chain.send(part, len(chosen))
        self._published += len(chosen)
        while (verdict := self._verdict()).word is Word.WAIT:
            self.chain.check()
            self.sleep(_LOOK_SECONDS)
        if verdict.word is Word.STOP:
            raise CanaryError(f"canary: {verdict.why}")
        self.chain.finish()

    def _verdict(self) -> Verdict:
        try:
            seen = self._look()
        except UnreachableError:
            if self.clock() - self._heard > _PATIENCE_SECONDS:
                raise
            return Verdict(Word.WAIT)
        now = self.clock()
        if seen.paused_for is PausedFor.OPERATOR:
            self._paused += now - self._heard
        self._heard = now
        if now - self._told >= _LINE_EVERY_SECONDS:
            self._told = now
            say(_progress(seen))
        return canary.judge(seen, Limits.of(self.run.file.job))

    def _look(self) -> Seen:
        chosen = self.plan.chosen
        ids = [row.id for row in chosen]
        state, paused_for = self.run.ledger.state(self.run.id)
        succeeded, failed = self._watch.ends(ids, [row.fingerprint for row in chosen])
        return Seen(
            rows=len(chosen),
            published=self._published,
            succeeded=succeeded,
            failed=failed,
            state=state,
            paused_for=paused_for,
            refusing=self._watch.refusing(ids),
            seconds=self.clock() - self._began - self._paused,
            workers=self._watch.workers(),
        )

    def _forecast(self, rows_a_second: float) -> Forecast:
        """Estimate what is left from the bills of the canary; raises `CanaryError` when the budget is too small."""
        bills = self._watch.bills([row.id for row in self.plan.chosen])
        left = self.plan.left
        tiers = {route: [bills.get(row.id, NOTHING) for row in self.plan.of(route)] for route in left}
        rows = sum(left.values())
        forecast = Forecast(
            rows=rows,
            basis=f"a canary of {len(self.plan.chosen)} rows",
            usd=total(Tier(left[route], [_float(bill.usd) for bill in tier]) for route, tier in tiers.items()),
            tokens=total(Tier(left[route], [_float(bill.tokens) for bill in tier]) for route, tier in tiers.items()),
            seconds=rows / rows_a_second if rows_a_second else None,
        )
        self.run.forecast = forecast
        verdict = canary.affordable(forecast, *_spent(bills.values()), Limits.of(self.run.file.job))
        if verdict.word is Word.STOP:
            raise CanaryError(f"canary: {verdict.why}")
        return forecast


def _progress(seen: Seen) -> str:
    failed = f", {sum(seen.failed.values())} of them failed" if seen.failed else ""
    paused = f"; the run is paused by its {seen.paused_for}" if seen.paused_for else ""
    nobody = "" if seen.workers else "; no worker is running"
    return f"canary: {seen.ended} of {seen.rows} rows have ended{failed}{paused}{nobody}"


def _spent(bills: Iterable[Bill]) -> tuple[Decimal, int]:
    known = list(bills)
    return sum((bill.usd or Decimal(0) for bill in known), Decimal(0)), sum(bill.tokens or 0 for bill in known)


def _float(number: Decimal | int | None) -> float | None:
    return None if number is None else float(number)
