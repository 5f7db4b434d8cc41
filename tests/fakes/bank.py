"""Budgets of runs in memory, drawn from as `headrace.draw_budget` says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from typing import Any

from tests.fakes.virtual_time import now
from worker import fleet_sql
from worker.errors import StoreUnavailableError

_SILENT_SECONDS = 150.0
_PLACES = (Decimal("1e-12"), Decimal(1))
Pair = list[Decimal]


@dataclass
class Holding:
    """A worker's line of one run."""

    granted: Pair = field(default_factory=lambda: [Decimal(0), Decimal(0)])
    spent: Pair = field(default_factory=lambda: [Decimal(0), Decimal(0)])
    heard: float = 0.0

    @property
    def holds(self) -> bool:
        return any(granted > spent for granted, spent in zip(self.granted, self.spent, strict=True))


@dataclass
class Budget:
    """One run: its budget of each kind, if any, and who holds what of it."""

    limits: tuple[Decimal | None, Decimal | None]
    state: str = "running"
    holdings: dict[str, Holding] = field(default_factory=dict)

    def granted(self, kind: int) -> Decimal:
        """What all workers together hold or have spent."""
        return sum((holding.granted[kind] for holding in self.holdings.values()), Decimal(0))


class Bank:
    """What all workers of a fleet ask; `away` as long as it is set."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], Budget] = {}
        self.away = False
        self.asked: list[str] = []

    def open(
        self, job: str = "reviews", run: str = "run-1", *, usd: str | None = None, tokens: int | None = None
    ) -> None:
        """Give a run a budget, or another one, and let it go on."""
        limits = (None if usd is None else Decimal(usd), None if tokens is None else Decimal(tokens))
        budget = self.runs.setdefault((job, run), Budget(limits))
        budget.limits, budget.state = limits, "running"

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self.asked.append(statement)
        await asyncio.sleep(0.002)
        if self.away:
            raise StoreUnavailableError("OperationalError")
        if statement == fleet_sql.BUDGETS:
            return list(self._budgets(values))
        budget = self.runs[values["job"], values["run"]]
        if statement == fleet_sql.DRAW:
            return draw(budget, now(), **{k: v for k, v in values.items() if k not in ("job", "run")})
        if statement == fleet_sql.PAUSE_FOR_BUDGET:
            budget.state = "paused"
        return []

    def _budgets(self, values: Mapping[str, Any]) -> Any:
        for job, run in zip(values["job"], values["run"], strict=True):
            of = run if (job, run) in self.runs else ""
            budget = self.runs.get((job, of))
            if budget is not None and any(limit is not None for limit in budget.limits):
                yield job, run, of, budget.limits[0] is not None, budget.limits[1] is not None


def draw(
    budget: Budget,
    at: float,
    *,
    worker: str,
    workers: int,
    stuck: bool,
    keeps: Pair,
    spent: Pair,
    reserved: Pair,
    smallest: Pair,
    largest: Pair,
    wish: Pair,
) -> list[tuple[str, Decimal, Decimal]]:
    """One draw; nothing where the run has no budget."""
    if budget.limits == (None, None):
        return []
    mine = budget.holdings.setdefault(worker, Holding())
    others = [budget.granted(kind) - mine.granted[kind] for kind in (0, 1)]
    keeps = [min(keeps[kind], mine.granted[kind]) for kind in (0, 1)]
    got, short = [Decimal(0), Decimal(0)], False
    for kind, limit in enumerate(budget.limits):
        if limit is not None:
            free = keeps[kind] - spent[kind] - reserved[kind]
            rest = max(limit - others[kind] - keeps[kind], Decimal(0))
            short = short or free + rest < smallest[kind]
            part = max(largest[kind], min((rest + free) / (2 * workers), limit / 50))
            got[kind] = max(min(rest, min(wish[kind], part) - free), Decimal(0)).quantize(_PLACES[kind], ROUND_DOWN)
    word = "paused" if budget.state in ("paused", "cancelled") else "later" if short else "granted"
    got = got if word == "granted" else [Decimal(0), Decimal(0)]
    mine.granted = [keeps[kind] + got[kind] for kind in (0, 1)]
    mine.spent, mine.heard = [*spent], at
    rivals = (one for name, one in budget.holdings.items() if name != worker)
    if word == "later" and stuck and not any(one.holds and one.heard > at - _SILENT_SECONDS for one in rivals):
        budget.state, word = "paused", "used_up"
    return [(word, mine.granted[0], mine.granted[1])]
