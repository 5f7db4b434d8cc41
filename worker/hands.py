"""The tasks of the prompts in hand, counted by topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from worker.core.room import Tally


class Hands:
    """One task a prompt; `freed` is told when one has ended, `broke` when one has ended with an error."""

    def __init__(self, open_: Tally, freed: Callable[[], None], broke: Callable[[BaseException], None]) -> None:
        self._open = open_
        self._freed = freed
        self._broke = broke
        self._tasks: dict[asyncio.Task[None], str] = {}

    def begin(self, step: Coroutine[None, None, None], topic: str) -> None:
        """Start a task for a message of this topic."""
        task = asyncio.get_running_loop().create_task(step)
        self._tasks[task] = topic
        self._open.add(topic)
        task.add_done_callback(self._end)

    async def finish(self) -> None:
        """Wait until all have ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def cut_off(self) -> None:
        """Cancel all, and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._open.add(self._tasks.pop(task), -1)
        self._freed()
        if not task.cancelled() and (error := task.exception()):
            self._broke(error)
