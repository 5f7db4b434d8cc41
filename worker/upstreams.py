"""The endpoints behind each model alias: who may be called now, and what their answers have shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.models import Price
from worker.core.circuit import Circuit, Permit
from worker.core.limiter import Limiter, Signal
from worker.core.outcome import Kind, Outcome
from worker.gate import Gate, Later
from worker.ports import Endpoint

_UNKNOWN_ALIAS_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Upstream:
    """One endpoint of an alias, with its limit and its circuit."""

    name: str
    alias: str
    model: str
    endpoint: Endpoint
    limiter: Limiter
    price: Price | None = None
    weight: float = 1.0
    inside: int = 0
    circuit: Circuit = field(default_factory=Circuit)

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
    reported: bool = False

    def saw(self, outcome: Outcome) -> None:
        """Let circuit and limit learn from the end of this call."""
        self.reported = True
        now, upstream = _now(), self.upstream
        upstream.circuit.saw(outcome, now, probed=self.probe)
        upstream.limiter.sample(signal_of(outcome), started=self.started, now=now, in_flight=upstream.inside)
        if outcome.retry_after:
            upstream.circuit.pause(now + outcome.retry_after)


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

    async def admit(self, alias: str) -> Admission:
        """Wait until an endpoint of the alias may be called, and take a place there; `leave` gives it back.

        An alias that nobody serves is a fault of the run, so its rows wait.
        """
        while alias not in self._gates:
            self._missing.add(alias)
            await asyncio.sleep(_UNKNOWN_ALIAS_SECONDS)
        return await self._gates[alias].enter()

    def leave(self, admission: Admission) -> None:
        """Give a place back; a probe whose call said nothing is free for the next one."""
        if admission.probe and not admission.reported:
            admission.upstream.circuit.abandon_probe()
        admission.upstream.inside -= 1
        self.inside -= 1
        for gate in self._gates.values():
            gate.look()

    @property
    def faults(self) -> Mapping[str, str]:
        """What is not usable now, and why, in our own words."""
        open_circuits = {u.name: u.circuit.opened_for.message for u in self.all if u.circuit.opened_for}
        return open_circuits | {f"model {alias}": "is not in the models file" for alias in sorted(self._missing)}

    @property
    def usable(self) -> bool:
        """Whether any endpoint may be called."""
        return any(upstream.circuit.opened_for is None for upstream in self.all)

    def _gate(self, group: list[Upstream]) -> Gate[Admission]:
        return Gate(lambda: self._choose(group), self.leave)

    def _choose(self, group: list[Upstream]) -> Admission | Later:
        """Take a place at the least loaded endpoint that may be called."""
        if self.inside >= self.limit:
            return Later()
        now = _now()
        with_room = [u for u in group if u.weight > 0 and u.inside < u.limit]
        for upstream in sorted(with_room, key=lambda u: u.load):
            permit = upstream.circuit.permit(now)
            if permit is not Permit.WAIT:
                upstream.inside += 1
                self.inside += 1
                return Admission(upstream, permit is Permit.PROBE, now)
        return Later(min((u.circuit.wakes_at(now) for u in with_room), default=float("inf")))


def signal_of(outcome: Outcome) -> Signal:
    """What an outcome says about the number of calls at once."""
    if outcome.kind in (Kind.RATE_LIMITED, Kind.UNAVAILABLE, Kind.TIMEOUT):
        return Signal.OVERLOADED
    return Signal.ANSWERED if outcome.kind in (Kind.ANSWERED, Kind.UNFIT) else Signal.IGNORED


def _now() -> float:
    return asyncio.get_running_loop().time()
