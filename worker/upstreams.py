"""The endpoints behind each model alias: who may be called now, and what their answers have shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.models import Price
from schemas.statuses import Unit
from worker.core.circuit import Circuit, Permit
from worker.core.limiter import Limiter, Signal
from worker.core.outcome import Kind, Outcome
from worker.core.tokens import Size
from worker.gate import Gate, Later
from worker.meter import NO_SIZE, Meter
from worker.ports import Endpoint

_UNKNOWN_ALIAS_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Upstream:
    """One endpoint of an alias, with its limits and its circuit.

    `account` names what its rates and its circuit are counted for in the whole fleet.
    """

    name: str
    alias: str
    model: str
    endpoint: Endpoint
    limiter: Limiter
    price: Price | None = None
    weight: float = 1.0
    inside: int = 0
    account: str = ""
    rpm: int | None = None
    tpm: int | None = None
    circuit: Circuit = field(default_factory=Circuit)
    meter: Meter = field(default_factory=Meter)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def saw(self, outcome: Outcome, now: float, started: float, *, probed: bool) -> None:
        """Let the circuit learn; what the fleet has to hear makes news."""
        was_open = self.circuit.opened_for is not None
        self.circuit.saw(outcome, now, started=started, probed=probed)
        if was_open and self.circuit.opened_for is None:
            self.limiter.restart()
        if self.circuit.news:
            self.news.set()

    @property
    def limit(self) -> int:
        """Calls allowed at once."""
        return max(1, int(self.limiter.limit))

    @property
    def load(self) -> float:
        """Calls running for each unit of weight: the balance prefers the least."""
        return self.inside / self.weight if self.weight else float("inf")


@dataclass(slots=True, eq=False)
class Admission:
    """A place at an endpoint; `probe` means that the answer decides whether its circuit closes."""

    upstream: Upstream
    probe: bool
    started: float
    size: Size = NO_SIZE
    taken: Mapping[Unit, float] = field(default_factory=dict)
    reported: bool = False

    def saw(self, outcome: Outcome) -> None:
        """Let circuit and limit learn from the end of this call."""
        self.reported = True
        now, upstream = _now(), self.upstream
        upstream.saw(outcome, now, self.started, probed=self.probe)
        upstream.limiter.sample(signal_of(outcome), started=self.started, now=now, in_flight=upstream.inside)
        upstream.meter.settle(outcome, self.size, self.taken, started=self.started, now=now)
        if wait := outcome.retry_after or upstream.limiter.rest:
            upstream.circuit.pause(now + wait)


class Upstreams:
    """All endpoints of a worker, at most `limit` calls at once.

    `default` is the alias of messages that name none. With `passes_unknown`, a name that is no alias is sent on as
    the server's own name of the model.
    """

    def __init__(self, upstreams: Iterable[Upstream], default: str, limit: int, *, passes_unknown: bool) -> None:
        self._by_alias: dict[str, list[Upstream]] = {}
        for upstream in upstreams:
            self._by_alias.setdefault(upstream.alias, []).append(upstream)
        self._gates = {alias: self._gate(group) for alias, group in self._by_alias.items()}
        self._passes_unknown = passes_unknown
        self._missing: set[str] = set()
        self.default = default
        self.limit = limit
        self.inside = 0

    @property
    def all(self) -> list[Upstream]:
        """Every endpoint."""
        return [upstream for group in self._by_alias.values() for upstream in group]

    @property
    def places(self) -> int:
        """Calls that could run at once now."""
        return min(self.limit, sum(upstream.limit for upstream in self.all))

    def resolve(self, alias: str | None) -> tuple[str, str | None]:
        """Give the alias whose endpoints serve a message, and the model name to send instead of theirs, if any."""
        if alias is None or alias in self._by_alias:
            return alias or self.default, None
        return (self.default, alias) if self._passes_unknown else (alias, None)

    async def admit(self, alias: str, size: Size = NO_SIZE) -> Admission:
        """Wait until an endpoint of the alias may take a call of this size; `leave` gives the place back.

        An alias that nobody serves is a fault of the run, so its rows wait.
        """
        while not self._by_alias.get(alias):
            self._missing.add(alias)
            await asyncio.sleep(_UNKNOWN_ALIAS_SECONDS)
        return await self._gates[alias].enter(size)

    def leave(self, admission: Admission) -> None:
        """Give a place back; a probe whose call said nothing is free for the next one."""
        if admission.probe and not admission.reported:
            admission.upstream.circuit.abandon_probe()
        admission.upstream.inside -= 1
        self.inside -= 1
        # A place under the common limit goes to who has waited longest, whatever the alias.
        for gate in sorted(self._gates.values(), key=lambda gate: gate.first):
            gate.look()

    def turn_back(self, admission: Admission) -> None:
        """Give a place back from which no call has left, and what was taken of the rates."""
        admission.upstream.circuit.give_back(admission.started)
        admission.upstream.meter.give_back(_now(), admission.taken)
        self.leave(admission)

    def become(self, upstreams: Iterable[Upstream], default: str) -> None:
        """Serve these from now on; calls at others end where they are, callers of an alias that has gone wait."""
        new = list(upstreams)
        for alias in {upstream.alias for upstream in new} - self._by_alias.keys():
            self._by_alias[alias] = []
            self._gates[alias] = self._gate(self._by_alias[alias])
        for alias, group in self._by_alias.items():
            group[:] = [upstream for upstream in new if upstream.alias == alias]
        self._missing = {alias for alias in self._missing if not self._by_alias.get(alias)}
        self.default = default
        for gate in self._gates.values():
            gate.look()

    def waiting(self, upstream: Upstream) -> list[Size]:
        """The calls that wait for a place and may fall to this endpoint."""
        others = sum(1 for u in self._by_alias[upstream.alias] if u.weight > 0)
        sizes = list(self._gates[upstream.alias])
        return sizes[: -(-len(sizes) // max(others, 1))]

    def look(self, alias: str) -> None:
        """Something has changed that may let a call leave."""
        self._gates[alias].look()

    @property
    def faults(self) -> Mapping[str, str]:
        """What is not usable now, and why, in our own words."""
        missing = self._missing | {alias for alias, group in self._by_alias.items() if not group}
        open_circuits = {u.name: u.circuit.opened_for.message for u in self.all if u.circuit.opened_for}
        return open_circuits | {f"model {alias}": "is not in the models file" for alias in sorted(missing)}

    @property
    def usable(self) -> bool:
        """Whether any endpoint may be called."""
        return any(upstream.circuit.opened_for is None for upstream in self.all)

    def _gate(self, group: list[Upstream]) -> Gate[Size, Admission]:
        return Gate(lambda size: self._choose(group, size), self.turn_back)

    def _choose(self, group: list[Upstream], size: Size) -> Admission | Later:
        """Take a place at the least loaded endpoint that may be called."""
        if self.inside >= self.limit:
            return Later()
        now, soonest = _now(), float("inf")
        for upstream in sorted((u for u in group if u.weight > 0 and u.inside < u.limit), key=lambda u: u.load):
            if (at := upstream.meter.ready_at(now, size)) > now:
                soonest = min(soonest, at)
            elif (permit := upstream.circuit.permit(now)) is Permit.WAIT:
                soonest = min(soonest, upstream.circuit.wakes_at(now))
            else:
                return self._enter(upstream, size, now, probe=permit is Permit.PROBE)
        return Later(soonest)

    def _enter(self, upstream: Upstream, size: Size, now: float, *, probe: bool) -> Admission:
        upstream.inside += 1
        self.inside += 1
        return Admission(upstream, probe, now, size, upstream.meter.take(now, size))


def signal_of(outcome: Outcome) -> Signal:
    """What an outcome says about the number of calls at once."""
    if outcome.kind in (Kind.RATE_LIMITED, Kind.UNAVAILABLE, Kind.TIMEOUT):
        return Signal.OVERLOADED
    return Signal.ANSWERED if outcome.kind in (Kind.ANSWERED, Kind.UNFIT) else Signal.IGNORED


def _now() -> float:
    return asyncio.get_running_loop().time()
