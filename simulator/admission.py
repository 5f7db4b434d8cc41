"""Lets calls in: the limits of a script at work, with queues for the calls that have to wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from simulator.calls import Call
from simulator.limits import ConcurrencyGate, Limiter, Refusal
from simulator.script import Script

Start = Callable[[], None]


class Ticket:
    """The place of one call in a gate or its queue; to be given back once, when the call ends."""

    def __init__(self, admission: Admission, gate: ConcurrencyGate, start: Start) -> None:
        self._admission, self._gate = admission, gate
        self.start = start
        self.inside = False
        self.given_back = False

    def give_back(self) -> None:
        """Frees the place; the next call in the queue may start at once."""
        if not self.given_back:
            self.given_back = True
            self._admission.left(self._gate, was_inside=self.inside)


class Admission:
    """The limits of one script since one start. Used from the event loop only."""

    def __init__(self, script: Script, started: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = started
        self._limiter = Limiter(script)
        self._queues: dict[int, deque[Ticket]] = {}
        self._unlimited = self._limiter.idle
        for gate in self._limiter.gates:
            self._watch(gate)

    def refuse(self, call: Call) -> Refusal | None:
        """Takes the call's cost from the limits, or says which one refuses it."""
        return None if self._unlimited else self._limiter.refuse(self._now(), call.cost)

    def enter(self, model: str, start: Start) -> Ticket | None:
        """Runs `start` now or when a place is free; gives the ticket to give back, if there is a gate."""
        gate = None if self._unlimited else self._limiter.gate_of(model)
        if gate is None:
            start()
            return None
        ticket = Ticket(self, gate, start)
        self._queues[id(gate)].append(ticket)
        self._let_in(gate)
        return ticket

    def left(self, gate: ConcurrencyGate, *, was_inside: bool) -> None:
        """Counts a call that left a gate."""
        if was_inside:
            gate.open -= 1
            self._let_in(gate)

    def _watch(self, gate: ConcurrencyGate) -> None:
        self._queues[id(gate)] = deque()
        for at_s, _ in gate.limit.schedule:
            self._loop.call_at(self._started + at_s, self._let_in, gate)

    def _let_in(self, gate: ConcurrencyGate) -> None:
        queue = self._queues[id(gate)]
        while queue and gate.has_room(self._now()):
            ticket = queue.popleft()
            if not ticket.given_back:
                ticket.inside = True
                gate.open += 1
                self._loop.call_soon(ticket.start)

    def _now(self) -> float:
        return self._loop.time() - self._started
