"""An event loop whose clock jumps to the next timer: hours of waiting pass at once, waiting for nothing raises."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, NoReturn, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""Unix time at the loop's zero, for code that is given a wall clock."""


class StuckError(AssertionError):
    """Everybody waits and no timer will ever wake anybody."""


class _Jumping(selectors.SelectSelector):
    now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise StuckError("every task waits for something that no other task and no timer will bring")
        self.now += max(timeout, 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For code without sockets; what is sent to a thread runs at once, in place."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(self, _executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, from the instant 1000."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make an async test run in virtual time."""

    @functools.wraps(test)
    def in_virtual_time(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return in_virtual_time


def now() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time()


def wall() -> float:
    """Unix time that goes with the loop's clock."""
    return EPOCH + now()


async def settle() -> None:
    """Let everything happen that can happen without time passing."""
    for _ in range(50):
        await asyncio.sleep(0)


async def never() -> NoReturn:
    """Wait for ever, so that only a cancellation ends it."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")
