"""One attempt at the rows of a Spark task: its worker in a thread of its own, which ends with the attempt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType

import uvloop

from worker.direct import Halt, Part, Shift
from worker.feed import Row
from worker.outcomes import OPEN, Outcome
from worker.settings import WorkerSettings

_OFFER_SECONDS = 0.25


class Attempt:
    """Takes rows and gives their outcomes, both in the thread that enters it; leaving it early drains the worker.

    The worker has its own thread, since leases are renewed and calls end while Spark keeps this one waiting.
    """

    def __init__(self, part: Part, settings: WorkerSettings) -> None:
        self._part = part
        self._settings = settings
        self._found: SimpleQueue[Outcome] = SimpleQueue()
        self._begun, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-direct")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._shift: Shift | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Attempt:
        self._thread.start()
        self._begun.wait()
        self._raise()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._over.is_set() and self._loop is not None and self._shift is not None:
            self._loop.call_soon_threadsafe(self._shift.stop.set)
        self._thread.join()

    @property
    def halt(self) -> Halt | None:
        """Why rows are left open, if they are."""
        return self._shift.halt if self._shift else None

    def answer(self, rows: Sequence[Row]) -> Iterator[list[Outcome]]:
        """Hand rows over as there is room, and meanwhile give what has ended; raises what broke the worker."""
        while not self._offered(rows):
            yield self._told()
        yield self._told()

    def finish(self) -> Iterator[list[Outcome]]:
        """Give what ends, until all rows have or the worker has left them; raises what broke it."""
        assert self._shift is not None
        if not self._over.is_set():
            self._shift.feed.close_input()
        while not self._over.wait(_OFFER_SECONDS):
            yield self._told()
        self._raise()
        yield self._told()

    def _offered(self, rows: Sequence[Row]) -> bool:
        assert self._shift is not None
        self._raise()
        if self._shift.feed.offer(rows, _OFFER_SECONDS):
            return True
        if not self._shift.feed.stopped:
            return False
        for row in rows:
            self._found.put(Outcome(row.id, OPEN))
        return True

    def _told(self) -> list[Outcome]:
        told = []
        try:
            while True:
                told.append(self._found.get_nowait())
        except Empty:
            return told

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._work())
        except BaseException as error:
            self._error = error
        finally:
            self._begun.set()
            self._over.set()

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._shift = Shift(self._part, self._settings, self._found)
        self._shift.feed.bind(self._loop)
        self._begun.set()
        await self._shift.run()
