"""What `/healthz` and `/readyz` say, and why."""

from __future__ import annotations

import time
from typing import Protocol

from worker.upstreams import Upstreams

# A poll loop or an event loop that has not moved for so long will not move again by itself.
STUCK_SECONDS = 60.0


class Member(Protocol):
    """What health needs to know of the consumer."""

    last_poll: float

    @property
    def member(self) -> bool:
        """Whether the group has taken it in."""

    @property
    def oldest(self) -> float | None:
        """Unix time of the oldest open message."""


class Vitals:
    """The signs of life of one worker; read from the health server's threads."""

    def __init__(self, member: Member, upstreams: Upstreams) -> None:
        self._member = member
        self._upstreams = upstreams
        self._beaten = time.monotonic()
        self.started = False
        self.database: str | None = "has not answered yet"

    def beat(self) -> None:
        """The event loop moves."""
        self._beaten = time.monotonic()

    def dead(self) -> str | None:
        """What is stuck, or None."""
        if time.monotonic() - self._beaten > STUCK_SECONDS:
            return "the event loop is stuck"
        if self.started and self.poll_age() > STUCK_SECONDS:
            return "the poll loop is stuck"
        return None

    def unready(self) -> str | None:
        """Why no work would be done now, or None."""
        if self.database is not None:
            return f"database: {self.database}"
        if not self.started or not self._member.member:
            return "kafka: not in the group yet"
        faults = "; ".join(f"{name}: {what}" for name, what in self._upstreams.faults.items())
        return None if self._upstreams.usable else f"no endpoint is usable: {faults}"

    def poll_age(self) -> float:
        """Seconds since the consumer last polled."""
        return time.monotonic() - self._member.last_poll if self.started else 0.0

    def oldest_age(self) -> float:
        """Seconds since the oldest open message was published."""
        oldest = self._member.oldest
        return max(time.time() - oldest, 0.0) if oldest else 0.0
