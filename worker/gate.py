"""The asyncio side of a limit: a queue of callers, served in order as soon as there is a place."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

I = TypeVar("I")  # noqa: E741
T = TypeVar("T")

# The shortest timer, so that a clock that has not quite arrived does not spin.
_TICK_SECONDS = 0.001
# Numbers callers in the order in which they come, at whichever gate.
_arrivals = count()


@dataclass(frozen=True, slots=True)
class Later:
    """There is no place now; `at` is the instant, on the loop's clock, at which time alone may have made one."""

    at: float = float("inf")


class Gate(Generic[I, T]):
    """Serves callers first come, first served; for one event loop.

    `choose` takes a place for what a caller brings and returns it, or says when to look again; it must not wait.
    `give_back` returns a place whose caller was cancelled in the moment it was served.
    """

    def __init__(self, choose: Callable[[I], T | Later], give_back: Callable[[T], None]) -> None:
        self._choose = choose
        self._give_back = give_back
        self._waiting: deque[tuple[int, I, asyncio.Future[T]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[I]:
        """What those who wait have brought, in their order."""
        return (item for _, item, turn in self._waiting if not turn.done())

    @property
    def first(self) -> float:
        """The number of the caller who has waited longest, among those of all gates; infinite when nobody waits."""
        return next((number for number, _, turn in self._waiting if not turn.done()), float("inf"))

    async def enter(self, item: I) -> T:
        """Wait for a place and take it."""
        turn: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        caller = (next(_arrivals), item, turn)
        self._waiting.append(caller)
        if len(self._waiting) == 1:
            self.look()
        try:
            return await turn
        except asyncio.CancelledError:
            self._give_up(caller)
            raise

    def look(self) -> None:
        """Serve as many callers as there are places; to be called whenever there may be one."""
        while self._waiting:
            _, item, turn = self._waiting[0]
            if turn.done():
                self._waiting.popleft()
                continue
            place = self._choose(item)
            if isinstance(place, Later):
                self._look_again(place.at)
                return
            self._waiting.popleft()
            turn.set_result(place)

    def _look_again(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at != float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(at, loop.time() + _TICK_SECONDS), self.look)

    def _give_up(self, caller: tuple[int, I, asyncio.Future[T]]) -> None:
        turn = caller[2]
        if turn.done() and not turn.cancelled():
            self._give_back(turn.result())
            return
        first = bool(self._waiting) and self._waiting[0] is caller
        with suppress(ValueError):
            self._waiting.remove(caller)
        if first:
            # The next one may be able to go where this one was not.
            self.look()
