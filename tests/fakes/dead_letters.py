"""A dead-letter topic in memory."""

from __future__ import annotations

import asyncio

from schemas.message import Unreadable
from worker.ports import Record


class FakeDeadLetters:
    """Keeps what was delivered; the next `failures` deliveries fail, each after `seconds`."""

    def __init__(self, failures: int = 0, seconds: float = 0.0) -> None:
        self.failures = failures
        self.seconds = seconds
        self.letters: list[tuple[Record, Unreadable]] = []

    async def put(self, record: Record, unreadable: Unreadable) -> bool:
        await asyncio.sleep(self.seconds)
        if self.failures:
            self.failures -= 1
            return False
        self.letters.append((record, unreadable))
        return True
