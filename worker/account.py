"""One run with a budget as this worker sees it: its purse, and the calls that wait for money."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from schemas.models import Price
from worker.core.amounts import NOTHING, Amount
from worker.core.budget import Limits, Purse


@dataclass(slots=True, eq=False)
class Account:
    """A purse and its queue; for one event loop. `unpriced` is a model that waits for a price, if any does."""

    job: str
    run: str
    purse: Purse = field(default_factory=lambda: Purse(Limits(usd=False, tokens=False)))
    waiting: dict[asyncio.Future[None], Amount] = field(default_factory=dict)
    priceless: dict[asyncio.Future[None], Amount] = field(default_factory=dict)
    unpriced: str = ""
    next_at: float = float("-inf")
    reclaim_at: float = float("-inf")

    @property
    def key(self) -> dict[str, str]:
        """Which run it is, in a statement and in a log line."""
        return {"job": self.job, "run": self.run}

    @property
    def waits(self) -> int:
        """How many calls wait."""
        return len(self.waiting) + len(self.priceless)

    def can_price(self, price: Price | None) -> bool:
        """Whether a call at this price can be counted: a budget in money needs one."""
        return price is not None or not self.purse.limits.usd

    async def wait(self, amount: Amount, alias: str, price: Price | None) -> None:
        """Wait until it is worth trying again."""
        queue = self.waiting
        if not self.can_price(price):
            queue, self.unpriced = self.priceless, alias
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue[turn] = amount
        try:
            await turn
        finally:
            queue.pop(turn, None)

    def wake(self, now: float) -> None:
        """Let those try again for whom there is enough, in the order of their coming."""
        promised = NOTHING
        for turn, amount in list(self.waiting.items()):
            counted = self.purse.limits.of(amount)
            if self.purse.has(promised + counted, now):
                promised += counted
                self._let(self.waiting, turn)

    def wake_all(self) -> None:
        """Let all try again."""
        for queue in (self.waiting, self.priceless):
            for turn in list(queue):
                self._let(queue, turn)

    def look_at_prices(self) -> None:
        """Let those without a price try again: the models file may have changed."""
        for turn in list(self.priceless):
            self._let(self.priceless, turn)

    @staticmethod
    def _let(queue: dict[asyncio.Future[None], Amount], turn: asyncio.Future[None]) -> None:
        del queue[turn]
        if not turn.done():
            turn.set_result(None)
