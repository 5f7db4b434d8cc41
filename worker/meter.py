"""The rates of one endpoint: what limits that were told or found out let leave now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.statuses import Unit
from worker.core.outcome import Kind, Outcome
from worker.core.pace import Pace
from worker.core.quota import USED, Share
from worker.core.tokens import Estimate, Size

NO_SIZE = Size(0)


@dataclass(slots=True, eq=False)
class Meter:
    """Shares of the limits that are told, a pace for one that is not; `hungry` is set when units are lacking."""

    shares: dict[Unit, Share] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    estimate: Estimate = field(default_factory=Estimate)
    hungry: asyncio.Event = field(default_factory=asyncio.Event)

    @staticmethod
    def of(rpm: int | None, tpm: int | None) -> Meter:
        """A meter for the limits of the models file, in units a minute."""
        meter = Meter()
        meter.tell(rpm, tpm)
        return meter

    def tell(self, rpm: int | None, tpm: int | None) -> None:
        """Take in the limits as they are now; what is held of one that stays is kept."""
        for unit, limit in ((Unit.REQUESTS, rpm), (Unit.TOKENS, tpm)):
            if limit is None:
                self.shares.pop(unit, None)
            else:
                rate = USED[unit] * limit / 60
                self.shares.setdefault(unit, Share(rate)).rate = rate

    def units(self, now: float, size: Size) -> Mapping[Unit, float]:
        """What a call takes of each limit: of tokens the likely ones, or the most where a server counts those."""
        return {unit: self._units(unit, share, now, size) for unit, share in self.shares.items()}

    def _units(self, unit: Unit, share: Share, now: float, size: Size) -> float:
        if unit is Unit.REQUESTS:
            return 1.0
        # A message may allow more tokens than the whole limit has: the fleet does not stand still for hours for it.
        return min(float(self.estimate.tokens(size, share.suspicion(now))), 60.0 * share.rate)

    def ready_at(self, now: float, size: Size) -> float:
        """The instant at which a call may leave; infinity while units for it are yet to be leased."""
        at = self.pace.ready_at(now)
        for unit, units in self.units(now, size).items():
            at = max(at, self.shares[unit].ready_at(now, units))
        if self.shares:
            self.hungry.set()
        return at

    def take(self, now: float, size: Size) -> Mapping[Unit, float]:
        """A call leaves; returns what it has taken, for `settle`."""
        self.pace.take(now)
        taken = self.units(now, size)
        for unit, units in taken.items():
            self.shares[unit].take(units)
        return taken

    def give_back(self, now: float, taken: Mapping[Unit, float]) -> None:
        """Undo `take`: the call has not left."""
        self.pace.give_back(now)
        for unit, units in taken.items():
            if unit in self.shares:
                self.shares[unit].credit += units

    def settle(
        self, outcome: Outcome, size: Size, taken: Mapping[Unit, float], *, started: float, now: float
    ) -> None:
        """Learn from the end of a call."""
        if outcome.kind is Kind.RATE_LIMITED:
            self.pace.refused(started, now, outcome.retry_after or 0.0)
        elif outcome.kind in _PROCESSED:
            self.pace.answered(now)
        if outcome.answer is not None:
            self.estimate.learn(size, outcome.answer.prompt_tokens, outcome.answer.completion_tokens)
        if (tokens := self.shares.get(Unit.TOKENS)) is None:
            return
        used = _tokens(outcome)
        if outcome.kind is Kind.RATE_LIMITED:
            tokens.suspect(started, now)
            used = 0.0
        reserved = taken.get(Unit.TOKENS, 0.0)
        tokens.settle(now, reserved, reserved if used is None else used)


# The server has worked on these, whatever came of it.
_PROCESSED = frozenset({Kind.ANSWERED, Kind.UNFIT, Kind.REJECTED, Kind.MALFORMED})


def _tokens(outcome: Outcome) -> float | None:
    answer = outcome.answer
    if answer is None or answer.prompt_tokens is None or answer.completion_tokens is None:
        return None
    return float(answer.prompt_tokens + answer.completion_tokens)
