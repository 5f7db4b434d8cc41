"""All ledgers of a run, read once everything has come to rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from tests.chaos.history import Change
from tests.chaos.manifest import Manifest
from tests.chaos.sampler import Samples

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Halt:
    """A process taken from its calls; `in_flight` is the endpoint's own count of the whole fleet's, right then."""

    how: Literal["kill", "freeze", "stop"]
    at: float
    pid: int
    in_flight: int
    exit_code: int | None = None

    @property
    def loses_calls(self) -> bool:
        """Whether this way of leaving may cost calls a second time."""
        return self.how != "stop" or self.exit_code != 0


@dataclass(frozen=True)
class Fault:
    """Something taken from the fleet between two instants (Unix time)."""

    name: str
    began: float
    ended: float


@dataclass(frozen=True)
class Ledgers:
    """P, L, R, A, D, C and H of one run, and what was done to it.

    `paid_faults` counts the calls that the endpoint's script billed and then spoiled: each is one extra call that no
    worker can prevent. `planned` is the least number of messages the run has to get through.
    """

    manifest: Manifest
    calls: Sequence[Row]
    results: Sequence[Row]
    attempts: Sequence[Row]
    letters: Sequence[Mapping[str, bytes | None]]
    samples: Samples
    history: Sequence[Change]
    planned: int
    halts: Sequence[Halt] = ()
    faults: Sequence[Fault] = ()
    paid_faults: int = 0
    canary_hits: Sequence[str] = field(default_factory=tuple)
    # How many bytes of each place were looked through for them.
    searched: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def bills(self) -> Counter[str]:
        """L: paid calls of each id."""
        return Counter(call["id"] for call in self.calls if call["billed"])

    @cached_property
    def extra(self) -> Counter[str]:
        """Paid calls of each id beyond one for each version of it that was published."""
        versions = {id_: len({m.fingerprint for m in found}) for id_, found in self.manifest.versions().items()}
        return Counter(
            {id_: bills - versions.get(id_, 0) for id_, bills in self.bills.items() if bills > versions.get(id_, 0)}
        )

    @cached_property
    def on_record(self) -> Counter[str]:
        """A: lines of each id that own up to a possible bill."""
        return Counter(line["id"] for line in self.attempts if line["billed"] != "no")

    @cached_property
    def maybes(self) -> Counter[str]:
        """A: lines of each id that say `maybe`."""
        return Counter(line["id"] for line in self.attempts if line["billed"] == "maybe")

    @property
    def lossy_halts(self) -> list[Halt]:
        """The halts that may cost calls."""
        return [halt for halt in self.halts if halt.loses_calls]

    def open_calls(self, halt: Halt) -> int:
        """Paid calls that the halted process had begun and not made durable: its exact calls in flight.

        A call counts when its id was claimed by that process, unfinished, and the endpoint billed it for a start
        between the claim and the halt.
        """
        held = self._held(halt)
        paid = (call for call in self.calls if call["billed"] and call["id"] in held)
        return sum(1 for call in paid if held[call["id"]] <= call["t_start"] <= halt.at)

    def _held(self, halt: Halt) -> dict[str, float]:
        """Ids that a process held at an instant, with the time of the claim."""
        held: dict[str, float] = {}
        for change in self.history:
            at = change.at.timestamp()
            if at > halt.at:
                break
            mine = f"-{halt.pid}-" in (change.worker or "")
            if change.new_status == "claimed" and mine:
                held[change.id] = at
            else:
                held.pop(change.id, None)
        return held

    def ends(self) -> list[datetime]:
        """R: when rows got their end, in order."""
        return sorted(row["completed_at"] for row in self.results if row["completed_at"] is not None)
