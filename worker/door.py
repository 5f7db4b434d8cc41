"""What a call passes before it leaves: a place at an endpoint, a claim that holds, money if its run has a budget."""

from __future__ import annotations

import asyncio

from worker.core.outcome import Outcome
from worker.errors import FencedError
from worker.interrupting import Interruptions
from worker.purses import Purses
from worker.talk import Talk
from worker.upstreams import Admission, Upstreams


class Door:
    """Nothing is held while waiting for money, and no money while waiting for a place; for one event loop.

    `purses` are those of the runs that have a budget, if anybody keeps them.
    """

    def __init__(self, upstreams: Upstreams, waits: Interruptions) -> None:
        self._upstreams = upstreams
        self._waits = waits
        self.purses: Purses | None = None

    async def admit(self, talk: Talk) -> Admission | None:
        """Wait until a call may leave; None while its claim may have run out, `FencedError` if it surely has."""
        while True:
            with self._waits.may_end(talk.work):
                admission = await self._upstreams.admit(talk.alias, talk.size)
            sure = not talk.work.fenced and asyncio.get_running_loop().time() <= talk.work.sure_until
            if sure and (self.purses is None or self.purses.pay(talk.work, admission)):
                return admission
            self._upstreams.turn_back(admission)
            if talk.work.fenced:
                raise FencedError
            if not sure or self.purses is None:
                return None
            with self._waits.may_end(talk.work):
                await self.purses.money(talk.work, admission)

    def settle(self, admission: Admission, outcome: Outcome) -> None:
        """Count what an ended call has cost."""
        if self.purses is not None:
            self.purses.settle(admission, outcome)
