"""Work beside the main thread, which stays free to be interrupted by a signal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class Aside(Generic[T]):
    """One piece of work on a thread of its own, begun at once; a process that ends does not wait for it."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._future: Future[T] = Future()
        self._work = work
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._future.set_result(self._work())
        except BaseException as error:
            self._future.set_exception(error)

    def done(self) -> bool:
        """Tell whether it has ended, well or not."""
        return self._future.done()

    def wait(self) -> None:
        """Wait for the end, whatever it is."""
        wait([self._future])

    def result(self, seconds: float | None = None) -> T:
        """Wait for the end; raises what it has raised, or `TimeoutError` after so many seconds."""
        return self._future.result(seconds)
