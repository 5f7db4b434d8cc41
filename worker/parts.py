"""What the main path is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from worker.asking import Asker
from worker.claiming import Claiming
from worker.foreman import Foreman
from worker.leases import Leases
from worker.ports import DeadLetters, Recorder, Source, Telemetry
from worker.upstreams import Upstreams


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything the main path works with."""

    source: Source
    claiming: Claiming
    dead_letters: DeadLetters
    upstreams: Upstreams
    asker: Asker
    writer: Recorder
    leases: Leases
    foreman: Foreman
    telemetry: Telemetry
    jitter: Callable[[], float]
