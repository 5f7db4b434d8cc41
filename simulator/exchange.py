"""One chat call from its arrival to its end: turned away or let in, delayed, generated, sent, recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Protocol

from simulator.admission import Ticket
from simulator.calls import Call, read_call
from simulator.delivery import End, Step, plain_steps, steps_of
from simulator.ledger import Entry
from simulator.outcomes import is_billed, outcome_of, sends_status
from simulator.replies import Reply, reply_to
from simulator.script import Action
from simulator.service import Service
from simulator.wire import Request

_STEPS_PER_TURN = 16
"""Writes of one call before other connections have their turn."""


class Client(Protocol):
    """The connection an exchange writes to."""

    paused: bool
    gone: bool

    def write(self, data: bytes) -> None:
        """Writes to the client."""
        ...

    def finish(self, end: End) -> None:
        """Says that the exchange is over and what becomes of the connection."""
        ...


class Exchange:
    """Runs one call by callbacks of the event loop. A client that leaves does not stop the generation."""

    __slots__ = (
        "_action",
        "_billed",
        "_blocked",
        "_call",
        "_client",
        "_ended",
        "_keep_alive",
        "_loop",
        "_open",
        "_outcome",
        "_sent",
        "_service",
        "_started",
        "_stats",
        "_status",
        "_steps",
        "_ticket",
    )

    def __init__(self, service: Service, client: Client, request: Request) -> None:
        self._loop = asyncio.get_running_loop()
        self._service, self._client = service, client
        self._call: Call = read_call(request)
        self._keep_alive = request.keep_alive
        self._stats = service.stats
        self._started = time.time()
        self._action: Action | None = None
        self._ticket: Ticket | None = None
        self._steps: Iterator[Step] | None = None
        self._outcome = "client_gone"
        self._status: int | None = None
        self._billed = self._blocked = self._ended = self._open = False
        self._sent = 0

    def start(self, headers: dict[str, str]) -> None:
        """Counts the call and turns it away or lets it in."""
        call = self._call
        call.number = self._stats.begin(call.id, call.attempt)
        turned_away = self._service.turn_away(call, headers)
        if turned_away is not None:
            self._send_plain(*turned_away)
        else:
            self._open = True
            self._stats.open()
            self._ticket = self._service.admission.enter(call.model, self._let_in)

    def client_left(self) -> None:
        """The connection is gone: a call that waits for its latency goes on, every other one ends."""
        generating = self._action is not None and self._steps is None
        if not generating or (self._action and self._action.abort_on_disconnect):
            self._end("client_gone" if self._outcome != "hung" else "hung")

    def resume(self) -> None:
        """The client takes more bytes."""
        if self._blocked:
            self._blocked = False
            self._run()

    def stop(self) -> None:
        """The simulator stops."""
        self._end("stopped")

    def _let_in(self) -> None:
        if self._ended:
            return
        rule = self._service.pick(self._call)
        self._action = rule.action
        delay_s = 0.0 if rule.action.close == "before_request" else self._service.latency(rule, self._call)
        if delay_s > 0:
            self._loop.call_later(delay_s, self._generate, rule.action)
        else:
            self._generate(rule.action)

    def _generate(self, action: Action) -> None:
        if self._ended:
            return
        reply = reply_to(self._call, action, int(self._started))
        reply.headers.append(("x-request-id", self._call.answer_id))
        self._billed = is_billed(action, reply)
        if self._billed:
            self._stats.bill(self._call.id)
        self._outcome = outcome_of(action, reply)
        if sends_status(action):
            self._status = reply.status
        self._steps = steps_of(reply, action, keep_alive=self._keep_alive)
        self._run()

    def _send_plain(self, reply: Reply, outcome: str) -> None:
        reply.headers.append(("x-request-id", self._call.answer_id))
        self._outcome, self._status = outcome, reply.status
        self._steps = plain_steps(reply, keep_alive=self._keep_alive)
        self._run()

    def _run(self) -> None:
        for step in islice(self._steps or (), _STEPS_PER_TURN):
            if step.delay_s > 0:
                self._loop.call_later(step.delay_s, self._go_on, step)
                return
            if not self._perform(step):
                return
        self._loop.call_soon(self._run)

    def _go_on(self, step: Step) -> None:
        if self._perform(step):
            self._run()

    def _perform(self, step: Step) -> bool:
        if self._client.gone or self._ended:
            self._status = self._status if self._sent else None
            self._end("client_gone")
            return False
        if step.data:
            self._client.write(step.data)
            self._sent += len(step.data)
        if step.end is End.MORE:
            self._blocked = self._client.paused
            return not self._blocked
        if step.end is not End.HANG:
            self._end(self._outcome)
            self._client.finish(step.end)
        return False

    def _end(self, outcome: str) -> None:
        if self._ended:
            return
        self._ended = True
        self._stats.end(outcome, self._status, was_open=self._open)
        if self._ticket is not None:
            self._ticket.give_back()
        if self._service.ledger is not None:
            self._service.ledger.write(self._entry(outcome))

    def _entry(self, outcome: str) -> Entry:
        call = self._call
        return Entry(
            id=call.id,
            attempt=call.attempt,
            number=call.number,
            body_sha256=sha256(call.body).hexdigest(),
            t_start=self._started,
            t_end=time.time(),
            bytes_sent=self._sent,
            outcome=outcome,
            status=self._status,
            billed=self._billed,
        )
