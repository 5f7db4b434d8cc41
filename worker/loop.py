"""The main path: take, read, claim, ask, decide, write, and only then let the offset be committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from schemas.message import Unreadable, decode
from schemas.statuses import Reason
from worker.claiming import comes_within
from worker.core.claims import Claim, Verdict
from worker.core.orders import Word
from worker.core.room import Bounds
from worker.core.rows import AttemptRow, FinishedRow, cancelled
from worker.errors import FencedError, WithdrawnError
from worker.hands import Hands
from worker.parts import Parts
from worker.ports import Taken, Work

log = logging.getLogger(__name__)

_MOST_A_CLAIM = 500
# While the model is the bottleneck, a claim waits this long for more places to come free, to be worth its round trip.
_GATHER_SECONDS = 0.01
_LIVE_SECONDS = 2.0
_RETRY_SECONDS = (0.5, 10.0)


class Loop:
    """One worker's main path; for one event loop."""

    def __init__(self, parts: Parts, bounds: Bounds) -> None:
        self._parts = parts
        self._bounds = bounds
        self._crowd = parts.asker.crowd
        self._hands = Hands(self._crowd.open, parts.source.look, self._break)
        self._live: list[Work] = []
        self._stopped = asyncio.Event()
        self._broken: BaseException | None = None
        parts.asker.fewer = parts.source.look

    @property
    def open(self) -> int:
        """Prompts in hand whose end is not durable yet."""
        return self._crowd.open.total

    async def run(self) -> None:
        """Take and answer until stopped; prompts in hand go on in their own tasks. Raises what broke a task."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._feed())
                group.create_task(self._return_to_live())
                group.create_task(self._parts.foreman.run())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if self._broken is not None:
            raise self._broken

    def stop(self) -> None:
        """Take nothing more and begin no further call; running calls go on."""
        self._stopped.set()
        self._parts.source.stop()
        self._parts.claiming.stop()
        self._parts.foreman.stop()
        self._parts.asker.waits.stop()

    async def finish(self) -> None:
        """Wait until everything in hand has ended; the caller bounds the time."""
        await self._hands.finish()

    async def abandon(self) -> list[Work]:
        """End the running calls without their answers, and return the works whose claims are still held."""
        await self._hands.cut_off()
        return self._parts.leases.held

    async def _feed(self) -> None:
        while not self._stopped.is_set():
            await self._gather()
            taken = await self._parts.source.take(max(self._free, 1), self._room)
            await self._parts.claiming.claim(self._readable(taken), self._start)

    @property
    def _free(self) -> int:
        weights = self._parts.foreman.orders.weights
        return min(self._crowd.free(self._parts.upstreams.places, self._bounds, weights), _MOST_A_CLAIM)

    def _room(self, topic: str) -> int:
        weights = self._parts.foreman.orders.weights
        return self._crowd.room(topic, self._parts.upstreams.places, self._bounds, weights)

    async def _gather(self) -> None:
        """While the model is the bottleneck, wait a little for a claim that is worth its round trip."""
        asker = self._parts.asker
        while True:
            asking = asker.asking
            free = min(sum(map(self._room, self._parts.source.waiting)), self._free)
            if free <= 0 or free >= self._bounds.ahead // 2 or asking < self._parts.upstreams.places // 2:
                return
            if await comes_within(self._stopped, _GATHER_SECONDS) or asker.asking >= asking:
                return

    def _readable(self, taken: Iterable[Taken]) -> list[Work]:
        """Read messages; what cannot be read goes its own way, and duplicates join the work in hand."""
        works: dict[tuple[str, str], Work] = {}
        for item in taken:
            work = self._read(item)
            if work is not None and self._parts.foreman.admits(work) and not self._joins(work):
                self._keep_latest(works, work)
        return list(works.values())

    def _read(self, item: Taken) -> Work | None:
        record = item.record
        if record.value is None:
            self._end([item], "tombstone")
            return None
        message = decode(record.key, record.value)
        if isinstance(message, Unreadable):
            self._hands.begin(self._bury(item, message), item.record.topic)
            return None
        return Work(message, record, [item.ticket], message.model or self._parts.upstreams.default)

    def _joins(self, work: Work) -> bool:
        """Let a duplicate of a prompt in hand share its end, but for another run's when that one is withdrawn."""
        held = self._parts.leases.find(work.key)
        if held is None or held.prompt.fingerprint != work.prompt.fingerprint or self._parts.foreman.sends(held):
            return False
        if held.prompt.run == work.prompt.run:
            held.tickets += work.tickets
        else:
            held.twins.append(work)
        self._parts.telemetry.message("duplicate", work.prompt.job)
        return True

    def _keep_latest(self, works: dict[tuple[str, str], Work], work: Work) -> None:
        if (other := works.get(work.key)) is not None:
            work, other = (other, work) if work.is_older_than(other) else (work, other)
            work.tickets += other.tickets
            same = other.prompt.fingerprint == work.prompt.fingerprint
            self._parts.telemetry.message("duplicate" if same else "superseded", work.prompt.job)
        works[work.key] = work

    def _start(self, work: Work, claim: Claim) -> None:
        # A claim of ours that is not in hand was made by a statement whose end we never learned.
        adopted = claim.verdict is Verdict.HELD and not self._parts.leases.holds(work.key, claim.fence)
        if claim.lost:
            self._parts.telemetry.lost_call()
        if claim.ours or adopted:
            work.claim = claim
            self._parts.leases.hold(work)
            self._begin(work)
        elif claim.verdict in (Verdict.LIVE, Verdict.HELD):
            self._wait_for_other(work)
        else:
            self._end_work(work, _ENDS[claim.verdict])

    def _begin(self, work: Work) -> None:
        """Ask what we have claimed, unless orders have come for it meanwhile."""
        if not self._parts.foreman.admits(work):
            self._parts.foreman.send_away(work)
        elif work.word is Word.END:
            self._hands.begin(self._cancel(work), work.record.topic)
        else:
            self._parts.asker.expect(work)
            self._hands.begin(self._answer(work), work.record.topic)

    def _wait_for_other(self, *works: Work) -> None:
        """Leave it to the store what becomes of these, and of duplicates by other runs, each by itself."""
        for work in works:
            self._live.append(work)
            self._crowd.open.add(work.record.topic)
            twins, work.twins = work.twins, []
            self._wait_for_other(*twins)

    async def _return_to_live(self) -> None:
        """Ask again for what another owner held, without holding back anything else."""
        while not await comes_within(self._stopped, _LIVE_SECONDS * (0.75 + self._parts.jitter() / 2)):
            waiting, self._live = sorted(self._live, key=lambda work: work.record.offset), []
            works: dict[tuple[str, str], Work] = {}
            for work in waiting:
                self._crowd.open.add(work.record.topic, -1)
                owned = any(map(self._parts.source.owns, work.tickets))
                if owned and self._parts.foreman.admits(work) and not self._joins(work):
                    self._keep_latest(works, work)
            await self._parts.claiming.claim(list(works.values()), self._start)
            # Those that have ended elsewhere, or left, have made room.
            self._parts.source.look()

    async def _answer(self, work: Work) -> None:
        """Ask until the prompt has its end, make that durable, then let go of the offset."""
        try:
            row, attempt = await self._parts.asker.ask(work)
        except FencedError:
            self._parts.leases.drop(work)
            self._wait_for_other(work)
        except WithdrawnError as withdrawn:
            await self._withdraw(work, withdrawn.retries)
        else:
            await self._keep(work, row, attempt, row.status)

    async def _withdraw(self, work: Work, retries: int) -> None:
        """Carry out the orders for a prompt in hand; its duplicates by other runs go on."""
        if work.word is Word.END:
            await self._cancel(work, retries)
        else:
            twins, work.twins = work.twins, []
            self._wait_for_other(*twins)
            self._parts.foreman.send_away(work)

    async def _cancel(self, work: Work, retries: int = 0) -> None:
        assert work.claim is not None
        await self._keep(work, cancelled(work.prompt, work.claim, work.alias, retries=retries), None, "cancelled")

    async def _keep(self, work: Work, row: FinishedRow, attempt: AttemptRow | None, outcome: str) -> None:
        stored = await self._parts.writer.write(row, attempt)
        self._parts.leases.drop(work)
        if not stored:
            # Another claim has come between: whether that one has an end is for the store to say.
            self._wait_for_other(work)
            return
        if row.reason is Reason.CANCELLED:
            twins, work.twins = work.twins, []
            self._wait_for_other(*twins)
        self._end_work(work, outcome)

    async def _bury(self, item: Taken, unreadable: Unreadable) -> None:
        """Deliver an unreadable message to the dead letters before its offset may be committed."""
        wait, longest = _RETRY_SECONDS
        while not await self._parts.dead_letters.put(item.record, unreadable):
            await asyncio.sleep(wait * (0.5 + self._parts.jitter() / 2))
            wait = min(wait * 2, longest)
        self._parts.telemetry.dead_letter(unreadable.reason)
        self._end([item], "dead_letter")

    def _end_work(self, work: Work, outcome: str) -> None:
        for ticket in (ticket for of in (work, *work.twins) for ticket in of.tickets):
            self._parts.source.done(ticket)
        self._parts.telemetry.message(outcome, work.prompt.job)

    def _end(self, items: Iterable[Taken], outcome: str) -> None:
        for item in items:
            self._parts.source.done(item.ticket)
            self._parts.telemetry.message(outcome, "")

    def _break(self, error: BaseException) -> None:
        self._broken = error
        self.stop()


_ENDS = {Verdict.DONE: "duplicate", Verdict.SUPERSEDED: "superseded", Verdict.CRASHED: "failed"}
