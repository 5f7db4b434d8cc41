"""The asyncio side of a limit: at most so many inside at once, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque


class Gate:
    """Lets `limit` callers in; the limit may change while callers wait. For one event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.inside = 0

    @property
    def limit(self) -> int:
        """How many may be inside."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self._let_in()

    @property
    def waiting(self) -> int:
        """How many wait outside."""
        return len(self._waiting)

    async def enter(self) -> None:
        """Wait for a place and take it."""
        if self.inside < self._limit and not self._waiting:
            self.inside += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._give_up(turn)
            raise

    def take(self) -> None:
        """Take a place that the caller has just seen to be free."""
        self.inside += 1

    def leave(self) -> None:
        """Give the place back."""
        self.inside -= 1
        self._let_in()

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        # Cancelled after its turn had come: the place is already taken and must not be lost.
        if turn.done() and not turn.cancelled():
            self.leave()
        else:
            self._waiting.remove(turn)

    def _let_in(self) -> None:
        while self._waiting and self.inside < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.inside += 1
                turn.set_result(None)
