"""This worker's part of a limit of the whole fleet: units that mature one by one, leased from the others' store."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from schemas.statuses import Unit

# What is used of a limit: the rest is for clocks and networks that do not keep an even pace. Tokens come in lumps.
USED = {Unit.REQUESTS: 0.985, Unit.TOKENS: 0.96}
# A lease is worth about this much of the fleet's time, and none begins later than so far ahead: what a dead worker
# held is lost within that time, and so is what was leased and not wanted.
LEASE_SECONDS = 0.5
AHEAD_SECONDS = 2.0
# Matured units that nobody wanted are kept for this long: a burst of the whole fleet is no longer than that.
_KEPT_SECONDS = 1.0
# Of a reserve that was not used, this much can be had again at once.
_CREDIT_SECONDS = 5.0
# Whether a server counts what a call may take or what it took is not told. It is taken to count the former; after a
# while without a refusal less and less, until one says that it does. After that it is believed for long.
_BELIEVED_AT_FIRST_SECONDS = 60.0
_BELIEVED_SECONDS = 1200.0
_FADES_SECONDS = 240.0


@dataclass(slots=True)
class Lease:
    """`units` that mature one after another, `every` seconds apart, the first at `start` plus `every`."""

    start: float
    every: float
    units: float


@dataclass(slots=True)
class Share:
    """What this worker holds of one limit; `rate` is the fleet's, in units a second. Times on the caller's clock."""

    rate: float
    credit: float = 0.0
    _leases: deque[Lease] = field(default_factory=deque)
    _believed_until: float | None = None
    _suspected_at: float = float("-inf")

    @property
    def held(self) -> float:
        """Units leased and not used, mature or not; a debt counts against them."""
        return sum(lease.units for lease in self._leases) + self.credit

    def add(self, lease: Lease) -> None:
        """Take in a lease that begins after those held."""
        self._leases.append(lease)

    def ready_at(self, now: float, units: float) -> float:
        """The instant at which so many units are mature; infinity while too few are leased."""
        self._forget(now, units)
        missing = units - self.credit
        if missing <= 0:
            return now
        for lease in self._leases:
            if lease.units >= missing:
                return lease.start + missing * lease.every
            missing -= lease.units
        return float("inf")

    def take(self, units: float) -> None:
        """Use units that are ready: credit first, then the oldest."""
        missing = units - self.credit
        self.credit = max(0.0, -missing)
        while missing > 0 and self._leases:
            missing -= self._draw(missing)

    def settle(self, now: float, reserved: float, used: float) -> None:
        """Correct a reserve by what was used: the rest comes back, an excess is owed."""
        rest = reserved - used
        if rest > 0:
            rest *= 1.0 - self.suspicion(now)
        self.credit = min(self.credit + rest, self.rate * _CREDIT_SECONDS)

    def suspicion(self, now: float) -> float:
        """How sure it is that the server counts what was reserved: from 0 to 1."""
        if self._believed_until is None:
            self._believed_until = now + _BELIEVED_AT_FIRST_SECONDS
        return max(0.0, 1.0 - max(0.0, now - self._believed_until) / _FADES_SECONDS)

    def suspect(self, started: float, now: float) -> None:
        """Take note that the server refused a call within the limit: it counts what was reserved.

        Calls that left before the last such note say nothing new.
        """
        if started < self._suspected_at:
            return
        self._suspected_at, self._believed_until = now, now + _BELIEVED_SECONDS
        self.credit = min(self.credit, 0.0)

    def wanted(self, waiting: float, next_one: float) -> float:
        """How many units to lease now for calls that wait for `waiting`, the next of them for `next_one`."""
        lacking = waiting - self.held
        if lacking <= 0:
            return 0.0
        return max(min(lacking, self.rate * LEASE_SECONDS), min(next_one - self.held, lacking), 1.0)

    def _draw(self, units: float) -> float:
        lease = self._leases[0]
        drawn = min(units, lease.units)
        lease.start += drawn * lease.every
        lease.units -= drawn
        if lease.units <= 0:
            self._leases.popleft()
        return drawn

    def _forget(self, now: float, units: float) -> None:
        """Let go of units that matured too long ago, but for those that the next call is saving up."""
        mature = sum(_mature(lease, now) for lease in self._leases)
        old = sum(_mature(lease, now - _KEPT_SECONDS) for lease in self._leases)
        excess = min(old, mature + self.credit - units)
        while excess > 0 and self._leases:
            excess -= self._draw(excess)


def _mature(lease: Lease, now: float) -> float:
    return max(0.0, min(lease.units, (now - lease.start) / lease.every))
