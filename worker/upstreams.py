"""The endpoints behind each model alias: who may be called now, and what their answers have shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.models import Price
from worker.core.circuit import Circuit, Permit
from worker.core.outcome import Outcome
from worker.gate import Gate
from worker.ports import Endpoint

# A waiter looks again at least this often, since a circuit may close earlier than it had said.
_LOOK_AGAIN_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Upstream:
    """One endpoint of an alias, with its limit and its circuit."""

    name: str
    alias: str
    model: str
    endpoint: Endpoint
    gate: Gate
    price: Price | None = None
    weight: float = 1.0
    circuit: Circuit = field(default_factory=Circuit)

    @property
    def has_room(self) -> bool:
        """Whether another call may run beside those running."""
        return self.gate.inside < self.gate.limit

    def pause(self, seconds: float) -> None:
        """Hold the endpoint back for as long as it asked."""
        self.circuit.pause(_now() + seconds)


@dataclass(slots=True, eq=False)
class Admission:
    """A place at an endpoint; `probe` means that the answer decides whether its circuit closes."""

    upstream: Upstream
    probe: bool
    reported: bool = False

    def saw(self, outcome: Outcome) -> None:
        """Let the circuit learn from the end of this call."""
        self.reported = True
        self.upstream.circuit.saw(outcome, _now(), probed=self.probe)


class Upstreams:
    """All endpoints of a worker; `default` is the alias of messages that name none."""

    def __init__(self, upstreams: Iterable[Upstream], default: str, gate: Gate, *, passes_unknown: bool) -> None:
        self._by_alias: dict[str, list[Upstream]] = {}
        for upstream in upstreams:
            self._by_alias.setdefault(upstream.alias, []).append(upstream)
        self.default = default
        self.gate = gate
        self._passes_unknown = passes_unknown
        self._missing: set[str] = set()

    @property
    def all(self) -> list[Upstream]:
        """Every endpoint."""
        return [upstream for group in self._by_alias.values() for upstream in group]

    def resolve(self, alias: str | None) -> tuple[str, str | None]:
        """Give the alias whose endpoints serve a message, and the model name to send instead of theirs, if any.

        With one endpoint and no models file, a name that is no alias is sent on as the server's own model name.
        """
        if alias is None or alias in self._by_alias:
            return alias or self.default, None
        return (self.default, alias) if self._passes_unknown else (alias, None)

    async def admit(self, alias: str) -> Admission:
        """Wait until an endpoint of the alias may be called, and take a place there; `leave` gives it back."""
        group = await self._group(alias)
        while True:
            await self.gate.enter()
            with_room = [upstream for upstream in group if upstream.has_room]
            if (admission := _choose(with_room)) is not None:
                admission.upstream.gate.take()
                return admission
            self.gate.leave()
            await _wait(with_room, group)

    def leave(self, admission: Admission) -> None:
        """Give a place back; a probe whose call said nothing is free for the next one."""
        if admission.probe and not admission.reported:
            admission.upstream.circuit.abandon_probe()
        admission.upstream.gate.leave()
        self.gate.leave()

    @property
    def faults(self) -> Mapping[str, str]:
        """What is not usable now, and why, in our own words."""
        open_circuits = {u.name: u.circuit.opened_for.message for u in self.all if u.circuit.opened_for}
        return open_circuits | {f"model {alias}": "is not in the models file" for alias in sorted(self._missing)}

    @property
    def usable(self) -> bool:
        """Whether any endpoint may be called."""
        return any(upstream.circuit.opened_for is None for upstream in self.all)

    async def _group(self, alias: str) -> list[Upstream]:
        """The endpoints of an alias; one that nobody serves is a fault of the run, so its rows wait."""
        while alias not in self._by_alias:
            self._missing.add(alias)
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        self._missing.discard(alias)
        return self._by_alias[alias]


def _choose(group: list[Upstream]) -> Admission | None:
    """Pick the least loaded endpoint by weight among those that may be called."""
    for upstream in sorted(group, key=_load):
        permit = upstream.circuit.permit(_now()) if upstream.weight > 0 else Permit.WAIT
        if permit is not Permit.WAIT:
            return Admission(upstream, probe=permit is Permit.PROBE)
    return None


async def _wait(with_room: list[Upstream], group: list[Upstream]) -> None:
    """Wait for a circuit to be worth asking again or, if all are full, for a place; then all is asked anew."""
    if with_room:
        wakes_at = min(upstream.circuit.wakes_at(_now()) for upstream in with_room)
        await asyncio.sleep(min(max(wakes_at - _now(), 0.001), _LOOK_AGAIN_SECONDS))
        return
    least = min(group, key=_load)
    await least.gate.enter()
    least.gate.leave()


def _load(upstream: Upstream) -> float:
    return upstream.gate.inside / upstream.weight if upstream.weight else float("inf")


def _now() -> float:
    return asyncio.get_running_loop().time()
