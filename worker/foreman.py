"""Carries out the orders for jobs on the prompts in hand and on those that come."""

from __future__ import annotations

import asyncio
import logging

from worker.asking import Asker
from worker.claiming import Claiming
from worker.core.orders import Orders, Word
from worker.leases import Leases
from worker.ports import Source, Work

log = logging.getLogger(__name__)


class Foreman:
    """Knows the present orders; for one event loop.

    A paused run's topic is parked in the source. Where others go on in its topic, a paused run's messages are passed
    over: the commit stays before the first of them, and the topic is read again from there when the order has ended.
    """

    def __init__(self, source: Source, leases: Leases, asker: Asker, claiming: Claiming) -> None:
        self._source = source
        self._leases = leases
        self._asker = asker
        self._claiming = claiming
        self._passed_over: dict[str, set[tuple[str, str | None]]] = {}
        self._leaving: set[Work] = set()
        self._left = asyncio.Event()
        self._stopped = False
        self.orders = Orders()

    def obey(self, orders: Orders) -> None:
        """Let these orders hold from now on."""
        self.orders = orders
        self._source.weigh(orders.weights)
        self._source.park(orders.parked)
        for work in self._leases.held:
            work.word = self._word(work)
        self._asker.waits.withdraw()
        if free := [topic for topic, runs in self._passed_over.items() if not all(map(self._waits, runs))]:
            for topic in free:
                del self._passed_over[topic]
            self._source.reread(free)

    def admits(self, work: Work) -> bool:
        """Say whether a prompt may be taken in hand; one that may not is passed over."""
        work.word = self._word(work)
        if work.word is Word.WAIT:
            self._pass_over(work)
        return work.word is not Word.WAIT

    def send_away(self, work: Work) -> None:
        """Let a prompt that we have claimed, and whose call is not running, leave our hands."""
        self._leaving.add(work)
        self._left.set()
        if work.word is Word.WAIT:
            self._pass_over(work)
        else:
            # The order has ended while this one was on its way out.
            self._source.reread({ticket.partition[0] for ticket in work.tickets})

    def sends(self, work: Work) -> bool:
        """Whether a prompt is on its way out, its claim not yet given back, so that nothing may join it."""
        return work in self._leaving

    def stop(self) -> None:
        """Give nothing back any more; what is still held, the stop itself gives back."""
        self._stopped = True
        self._left.set()

    async def run(self) -> None:
        """Give back the claims of those that leave, together, until stopped."""
        while True:
            await self._left.wait()
            self._left.clear()
            if self._stopped:
                return
            works = list(self._leaving)
            log.info("orders.giving_back", extra={"rows": len(works)})
            await self._claiming.give_back(works)
            self._leaving.difference_update(works)

    def _pass_over(self, work: Work) -> None:
        for ticket in work.tickets:
            self._source.pass_over(ticket)
            # A duplicate that has joined it may have come by another topic.
            self._passed_over.setdefault(ticket.partition[0], set()).add((work.prompt.job, work.prompt.run))

    def _word(self, work: Work) -> Word:
        return self.orders.word(work.prompt.job, work.prompt.run, work.published_at)

    def _waits(self, run: tuple[str, str | None]) -> bool:
        return self.orders.word(*run, None) is Word.WAIT
