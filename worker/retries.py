"""Who waits for one more retry at an alias: served in order, so that a crowd of them costs one timer."""

from __future__ import annotations

import asyncio

from worker.core.retry_budget import RetryBudget
from worker.gate import Gate, Later


class Retries:
    """The retry budget of one alias and its queue; for one event loop."""

    def __init__(self) -> None:
        self._budget = RetryBudget()
        self._gate: Gate[None, bool] = Gate(self._choose, lambda _: self._give_back())

    def called(self) -> None:
        """A call has left, whether the first of its row or not."""
        self._budget.called(_now())

    async def afford(self) -> None:
        """Wait until one more retry keeps them a small part of all calls, and take it."""
        await self._gate.enter(None)

    def _choose(self, _item: None) -> bool | Later:
        return self._budget.take(_now()) or Later(self._budget.ready_at(_now()))

    def _give_back(self) -> None:
        self._budget.give_back()
        self._gate.look()


def _now() -> float:
    return asyncio.get_running_loop().time()
