"""What the main path is made of, and how much it takes in hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from worker.asking import Asker
from worker.leases import Leases
from worker.ports import DeadLetters, Source, Store, Telemetry
from worker.upstreams import Upstreams
from worker.writer import Writer


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is in hand at once: claims waiting for a place beyond the limit, and prompts not yet durable."""

    ahead: int
    open: int

    @staticmethod
    def of(max_in_flight: int) -> Bounds:
        """Bounds for a limit on calls: an eighth ahead, and three times as many open as running."""
        return Bounds(ahead=max(16, max_in_flight // 8), open=3 * max_in_flight + 64)


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything the main path works with."""

    source: Source
    store: Store
    dead_letters: DeadLetters
    upstreams: Upstreams
    asker: Asker
    writer: Writer
    leases: Leases
    telemetry: Telemetry
    jitter: Callable[[], float]
