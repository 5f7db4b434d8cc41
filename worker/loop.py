"""The main path: take, read, claim, ask, decide, write, and only then let the offset be committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable

from schemas.message import Unreadable, decode
from worker.core.claims import Claim, Verdict
from worker.errors import FencedError, StoreUnavailableError
from worker.parts import Bounds, Parts
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
        self._tasks: set[asyncio.Task[None]] = set()
        self._live: list[Work] = []
        self._claiming = asyncio.Lock()
        self._stopped = asyncio.Event()
        self._broken: BaseException | None = None

    @property
    def open(self) -> int:
        """Prompts in hand whose end is not durable yet."""
        return len(self._tasks) + len(self._live)

    async def run(self) -> None:
        """Take and answer until stopped; prompts in hand go on in their own tasks. Raises what broke a task."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._feed())
                group.create_task(self._return_to_live())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if self._broken is not None:
            raise self._broken

    def stop(self) -> None:
        """Take nothing more and begin no further call; running calls go on."""
        self._stopped.set()
        self._parts.source.stop()
        self._parts.asker.stop()
        self._parts.asker.fewer.set()

    async def finish(self) -> None:
        """Wait until everything in hand has ended; the caller bounds the time."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def abandon(self) -> list[Work]:
        """End the running calls without their answers, and return the works whose claims are still held."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return self._parts.leases.held

    async def _feed(self) -> None:
        while not self._stopped.is_set():
            room = await self._room()
            taken = await self._parts.source.take(room)
            await self._claim(self._readable(taken))

    async def _room(self) -> int:
        """Wait until another claim is worth its round trip, and say how many messages it may take."""
        asker = self._parts.asker
        while True:
            limit = self._parts.upstreams.places
            asking = asker.asking
            free = min(limit + self._bounds.ahead - asking, self._bounds.open - self.open, _MOST_A_CLAIM)
            if self._stopped.is_set() or free >= self._bounds.ahead // 2 or (free > 0 and asking < limit // 2):
                return max(free, 1)
            asker.fewer.clear()
            if free <= 0:
                await asker.fewer.wait()
            elif not await self._stopping_within(_GATHER_SECONDS) and asker.asking >= asking:
                return free

    def _readable(self, taken: Iterable[Taken]) -> list[Work]:
        """Read messages; what cannot be read goes its own way, and duplicates join the work in hand."""
        works: dict[tuple[str, str], Work] = {}
        for item in taken:
            work = self._read(item)
            if work is not None and not self._joins(work):
                self._keep_latest(works, work)
        return list(works.values())

    def _read(self, item: Taken) -> Work | None:
        record = item.record
        if record.value is None:
            self._end([item], "tombstone")
            return None
        message = decode(record.key, record.value)
        if isinstance(message, Unreadable):
            self._spawn(self._bury(item, message))
            return None
        return Work(message, record, [item.ticket], message.model or self._parts.upstreams.default)

    def _joins(self, work: Work) -> bool:
        """Let a duplicate of a prompt in hand share its end."""
        held = self._parts.leases.find(work.key)
        if held is None or held.prompt.fingerprint != work.prompt.fingerprint:
            return False
        held.tickets += work.tickets
        self._parts.telemetry.message("duplicate", work.prompt.job)
        return True

    def _keep_latest(self, works: dict[tuple[str, str], Work], work: Work) -> None:
        if (other := works.get(work.key)) is not None:
            work, other = (other, work) if work.is_older_than(other) else (work, other)
            work.tickets += other.tickets
            same = other.prompt.fingerprint == work.prompt.fingerprint
            self._parts.telemetry.message("duplicate" if same else "superseded", work.prompt.job)
        works[work.key] = work

    async def _claim(self, works: list[Work]) -> None:
        if not works:
            return
        async with self._claiming:
            for work, claim in zip(works, await self._claims(works), strict=False):
                self._start(work, claim)

    async def _claims(self, works: list[Work]) -> list[Claim]:
        """Claim, repeating while the store is away; nothing is claimed when the stop comes first."""
        wait, longest = _RETRY_SECONDS
        while True:
            since = asyncio.get_running_loop().time()
            try:
                claims = await self._parts.store.claim(works)
            except StoreUnavailableError as error:
                log.warning("claim.unavailable", extra={"rows": len(works), "what": str(error)})
                if await self._stopping_within(wait * (0.5 + self._parts.jitter() / 2)):
                    return []
                wait = min(wait * 2, longest)
            else:
                self._parts.leases.vouch(works, since)
                return claims

    def _start(self, work: Work, claim: Claim) -> None:
        # A claim of ours that is not in hand was made by a statement whose end we never learned.
        adopted = claim.verdict is Verdict.HELD and self._parts.leases.find(work.key) is None
        if claim.lost:
            self._parts.telemetry.lost_call()
        if claim.ours or adopted:
            work.claim = claim
            self._parts.leases.hold(work)
            self._parts.asker.expect()
            self._spawn(self._answer(work))
        elif claim.verdict in (Verdict.LIVE, Verdict.HELD):
            self._live.append(work)
        else:
            self._end_work(work, _ENDS[claim.verdict])

    async def _return_to_live(self) -> None:
        """Ask again for what another owner held, without holding back anything else."""
        while not await self._stopping_within(_LIVE_SECONDS * (0.75 + self._parts.jitter() / 2)):
            waiting, self._live = sorted(self._live, key=lambda work: work.record.offset), []
            works: dict[tuple[str, str], Work] = {}
            for work in waiting:
                if any(map(self._parts.source.owns, work.tickets)) and not self._joins(work):
                    self._keep_latest(works, work)
            await self._claim(list(works.values()))
            # Those that have ended elsewhere, or left, have made room.
            self._parts.asker.fewer.set()

    async def _stopping_within(self, seconds: float) -> bool:
        """Sleep, but no longer than until the stop; says whether it has come."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return False
        return True

    async def _answer(self, work: Work) -> None:
        """Ask until the prompt has its end, make that durable, then let go of the offset."""
        try:
            row, attempt = await self._parts.asker.ask(work)
        except FencedError:
            self._parts.leases.drop(work)
            self._live.append(work)
            return
        stored = await self._parts.writer.write(row, attempt)
        self._parts.leases.drop(work)
        if stored:
            self._end_work(work, row.status)
        else:
            # Another claim has come between: whether that one has an end is for the store to say.
            self._live.append(work)

    async def _bury(self, item: Taken, unreadable: Unreadable) -> None:
        """Deliver an unreadable message to the dead letters before its offset may be committed."""
        wait, longest = _RETRY_SECONDS
        while not await self._parts.dead_letters.put(item.record, unreadable):
            await asyncio.sleep(wait * (0.5 + self._parts.jitter() / 2))
            wait = min(wait * 2, longest)
        self._parts.telemetry.dead_letter(unreadable.reason)
        self._end([item], "dead_letter")

    def _end_work(self, work: Work, outcome: str) -> None:
        for ticket in work.tickets:
            self._parts.source.done(ticket)
        self._parts.telemetry.message(outcome, work.prompt.job)

    def _end(self, items: Iterable[Taken], outcome: str) -> None:
        for item in items:
            self._parts.source.done(item.ticket)
            self._parts.telemetry.message(outcome, "")

    def _spawn(self, step: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(step)
        self._tasks.add(task)
        task.add_done_callback(self._reap)

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._parts.asker.fewer.set()
        if not task.cancelled() and (error := task.exception()):
            self._broken = error
            self.stop()


_ENDS = {Verdict.DONE: "duplicate", Verdict.SUPERSEDED: "superseded", Verdict.CRASHED: "failed"}
