"""Waits that a stop or an order may end, while calls that run go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from worker.core.orders import Word
from worker.errors import WithdrawnError
from worker.ports import Work


class Interruptions:
    """The prompts that wait for a place or wait out a back-off; for one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Task[Any], Work] = {}
        self._withdrawn: set[asyncio.Task[Any]] = set()
        self._stopped = False

    def stop(self) -> None:
        """Cancel all that wait, and whoever wants to wait from now on."""
        self._stopped = True
        for task in self._waiting:
            task.cancel()

    def withdraw(self) -> None:
        """Interrupt those whose orders have changed."""
        for task, work in self._waiting.items():
            if work.word is not Word.GO:
                self._withdrawn.add(task)
                task.cancel()

    @contextmanager
    def may_end(self, work: Work) -> Iterator[None]:
        """Mark a wait; it ends with `CancelledError` at a stop and with `WithdrawnError` by an order."""
        if self._stopped:
            raise asyncio.CancelledError
        if work.word is not Word.GO:
            raise WithdrawnError
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = work
        try:
            yield
        except asyncio.CancelledError:
            if self._stopped or task not in self._withdrawn:
                raise
            task.uncancel()
            raise WithdrawnError from None
        finally:
            del self._waiting[task]
            self._withdrawn.discard(task)
