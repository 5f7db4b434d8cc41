"""A stop on one budget: take nothing, let calls end, write, give claims back, commit, leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from worker.errors import StoreRefusedError, StoreUnavailableError
from worker.leases import Leases
from worker.loop import Loop
from worker.ports import Store, Work
from worker.writer import Writer

log = logging.getLogger(__name__)

# Shares of the budget that the later steps are left.
_WRITING = 0.25
_LEAVING = 0.1


class Group(Protocol):
    """What a stop needs of the source."""

    async def close(self, seconds: float) -> bool:
        """Commit what is finished and leave; says whether that was done in time."""


async def drain(loop: Loop, writer: Writer, leases: Leases, store: Store, group: Group, budget: float) -> bool:
    """Stop within `budget` seconds; True when nothing paid for was left behind.

    Calls that outlast their share are abandoned: their ledger lines say `maybe`, their claims are given back, and
    the next owner asks again. The tasks of writer and leases must have ended before.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + budget
    log.info("worker.draining", extra={"open": loop.open, "seconds": budget})
    loop.stop()
    # A budget may be longer than a lease, and what still runs is ours.
    writing, renewing = asyncio.create_task(writer.run()), asyncio.create_task(leases.run())
    await _until(deadline - budget * _WRITING, loop.finish())
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    given_back = await loop.abandon()
    written = await _until(deadline - budget * _LEAVING, _write(writer, store, given_back))
    renewing.cancel()
    await asyncio.gather(renewing, return_exceptions=True)
    left = await group.close(max(deadline - now(), 0.5))
    log.info("worker.drained", extra={"given_back": len(given_back), "written": written, "left": left})
    return written and left


async def _write(writer: Writer, store: Store, given_back: list[Work]) -> None:
    await writer.flush()
    if given_back:
        await store.release(given_back)


async def _until(deadline: float, step: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout_at(deadline):
            await step
    except (TimeoutError, StoreUnavailableError, StoreRefusedError) as error:
        log.warning("drain.unfinished", extra={"what": type(error).__name__})
        return False
    return True
