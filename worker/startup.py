"""Waiting for what a worker needs: with back-off, one line a minute, and an end as soon as a stop is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from schemas.database import REVISION, is_refusal
from worker.errors import StopAskedError, StoreUnavailableError, WrongSettingsError

log = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 15.0
_LINE_EVERY_SECONDS = 60.0
_BROKER_SECONDS = 5.0

# Asks once; says what is missing, or None when it is there.
Ask = Callable[[], Awaitable[str | None]]


class Schema(Protocol):
    """Who knows the revision of the tables."""

    async def revision(self) -> str | None:
        """The revision, or None before the first migration; raises `StoreUnavailableError`."""

    async def trouble(self) -> str | None:
        """Why no connection can be made, or None."""


class Brokers(Protocol):
    """Who can reach Kafka."""

    def reachable(self, seconds: float) -> str | None:
        """Say what is wrong, or None; blocks for as long as `seconds`, raises `WrongSettingsError` for a refusal."""


async def wait_for_database(store: Schema, stop: asyncio.Event) -> None:
    """Wait until the tables are there in our revision.

    Raises `WrongSettingsError` for a revision that we do not know, and where no repetition helps.
    """
    await _wait("database", "check DATABASE_URL and run `headrace migrate`", lambda: _schema(store), stop)


async def wait_for_kafka(brokers: Brokers, servers: str, stop: asyncio.Event) -> None:
    """Wait until a broker answers; raises `WrongSettingsError` where no repetition helps."""

    async def ask() -> str | None:
        return await asyncio.to_thread(brokers.reachable, _BROKER_SECONDS)

    await _wait("kafka", f"check KAFKA_BOOTSTRAP_SERVERS ({servers})", ask, stop)


async def _schema(store: Schema) -> str | None:
    try:
        revision = await store.revision()
    except StoreUnavailableError as error:
        said = await store.trouble() or str(error)
        if is_refusal(said):
            raise WrongSettingsError(f"DATABASE_URL: {said}") from None
        return said
    if revision is None or revision < REVISION:
        return f"its schema is at revision {revision or 'none'}, {REVISION} is needed"
    if revision > REVISION:
        raise WrongSettingsError(
            f"DATABASE_URL: the schema is at revision {revision}, this worker knows {REVISION}: deploy a newer worker"
        )
    return None


async def _wait(what: str, next_step: str, ask: Ask, stop: asyncio.Event) -> None:
    wait, said = _FIRST_WAIT_SECONDS, -_LINE_EVERY_SECONDS
    while (missing := await ask()) is not None:
        now = asyncio.get_running_loop().time()
        if now - said >= _LINE_EVERY_SECONDS:
            log.warning(f"{what}.waiting", extra={"what": missing, "next": next_step})
            said = now
        await _pause(wait, stop)
        wait = min(wait * 2, _LONGEST_WAIT_SECONDS)


async def _pause(seconds: float, stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
    raise StopAskedError
