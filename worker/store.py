"""The Postgres side of the store: psycopg on a small pool, arrays in binary, one statement a batch."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from schemas.database import LEASE_SECONDS, MAX_STARTS, told
from schemas.settings import DatabaseSettings
from worker import sql
from worker.core.amounts import Bound
from worker.core.claims import Claim, Verdict
from worker.core.rows import AttemptRow, FinishedRow
from worker.errors import SchemaMissingError, StoreRefusedError, StoreUnavailableError
from worker.ports import Work
from worker.relation import parameters, relation

log = logging.getLogger(__name__)

T = TypeVar("T")
Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]

# One for claims, one for answers, one for leases and health, one for what the fleet shares: one task at a time each.
_CONNECTIONS = 4
_POOL_WAIT_SECONDS = 5.0
# Longer than any healthy batch; a statement that waits on somebody's lock is repeated rather than waited for.
_STATEMENT_SECONDS = 20
_CONNECT_SECONDS = 5

_ROW_COLUMNS = [name for name in sql.ENDED if name != "result_json"]
_ATTEMPT_COLUMNS = list(sql.CALLS)
_LOST_COLUMNS = ("owner", "held_claim", "held_run", "held_model")
# A new row has had no calls, and one that is not asked needs no number for its next.
_WITHOUT_CALLS = frozenset({Verdict.NEW, Verdict.DONE, Verdict.SUPERSEDED, Verdict.LIVE, Verdict.CRASHED})
# The server understood the statement and its values and will refuse them each time.
_REFUSALS = (psycopg.DataError, psycopg.IntegrityError, UnicodeEncodeError)


class PostgresStore:
    """Claims and answers in `headrace.results` and `headrace.attempts`; `worker` is this process's unique name.

    `bound` says what a lost call of a work may have cost at most.
    """

    def __init__(
        self, database: DatabaseSettings, worker: str, bound: Callable[[Work], Bound] = lambda _: Bound()
    ) -> None:
        self._worker = worker
        self._bound = bound
        self._url = database.url
        self._pool = AsyncConnectionPool(
            database.url.get_secret_value(),
            min_size=1,
            max_size=_CONNECTIONS,
            open=False,
            timeout=_POOL_WAIT_SECONDS,
            reconnect_timeout=_POOL_WAIT_SECONDS,
            kwargs={
                "autocommit": True,
                "connect_timeout": _CONNECT_SECONDS,
                # Poolers in transaction mode lose prepared statements.
                "prepare_threshold": None,
                "application_name": "headrace-worker",
                "options": f"-c statement_timeout={_STATEMENT_SECONDS}s -c idle_in_transaction_session_timeout=60s",
            },
        )

    async def open(self) -> None:
        """Begin to connect; does not wait for the server."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Let all connections go."""
        await self._pool.close(timeout=2.0)

    async def revision(self) -> str | None:
        """The schema's revision, or None before the first migration; raises `StoreUnavailableError`."""
        try:
            found = await self._rows(sql.REVISION, {})
        except SchemaMissingError:
            return None
        return str(found[0][0]) if found else None

    async def trouble(self) -> str | None:
        """Why no connection can be made, in the driver's words, or None; the pool itself keeps that to itself."""
        try:
            url = self._url.get_secret_value()
            connection = await AsyncConnection.connect(url, connect_timeout=_CONNECT_SECONDS)
        except psycopg.OperationalError as error:
            return told(error)
        await connection.close()
        return None

    async def claim(self, works: Sequence[Work]) -> list[Claim]:
        """Claim in one transaction; answers in the order of `works`."""
        return await self._use(lambda connection: self._claim(connection, works))

    async def finish(self, rows: Sequence[FinishedRow], attempts: Sequence[AttemptRow]) -> list[bool]:
        """Write ends and ledger lines in one transaction; False where another claim has come between."""
        ends = _columns(rows, _ROW_COLUMNS) | {"result_json": [_json(row.result_json) for row in rows]}
        calls = _columns(attempts, _ATTEMPT_COLUMNS)
        statement = sql.FINISH.format(ended=relation(sql.ENDED, ends), calls=relation(sql.CALLS, calls, "a_"))
        values = parameters(sql.ENDED, ends) | parameters(sql.CALLS, calls, "a_") | {"worker": self._worker}
        stored = {nth for (nth,) in await self._rows(statement, values)}
        if len(stored) < len(rows):
            keys = {name: ends[name] for name in ("job", "id", "fence")}
            stored |= {nth for (nth,) in await self._rows(sql.ALREADY, keys)}
        return [nth in stored for nth in range(1, len(rows) + 1)]

    async def renew(self, works: Sequence[Work]) -> list[bool]:
        """Prolong the leases of these claims; False where another claim has come between or the row has ended."""
        renewed = set(await self._rows(sql.RENEW, _fences(works) | {"lease": LEASE_SECONDS}))
        return [work.key in renewed for work in works]

    async def release(self, works: Sequence[Work]) -> None:
        """Give claims back whose call is not running."""
        await self._rows(sql.RELEASE, _fences(works))

    async def ask(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one of the fleet's statements; raises `StoreUnavailableError` or `StoreRefusedError`."""
        return await self._rows(statement, values)

    async def _claim(self, connection: Connection, works: Sequence[Work]) -> list[Claim]:
        incoming = _incoming(works)
        statement = sql.CLAIM.format(incoming=relation(sql.INCOMING, incoming))
        limits = {"worker": self._worker, "lease": LEASE_SECONDS, "max_starts": MAX_STARTS}
        async with connection.transaction():
            found = await _execute(connection, statement, parameters(sql.INCOMING, incoming) | limits)
            # In the order of `works`, which the statement counts from 1.
            judged = [_Judged(*row) for row in sorted(found)]
            if any(row.owner is not None for row in judged):
                await _execute(connection, sql.LOST, self._lost(works, judged))
            known = [work for work, row in zip(works, judged, strict=True) if row.verdict not in _WITHOUT_CALLS]
            numbers = await _execute(connection, sql.NUMBERS, _keys(known)) if known else []
        calls = {(job, id_): number for job, id_, number in numbers}
        return [row.claim(calls.get(work.key, 0)) for work, row in zip(works, judged, strict=True)]

    def _lost(self, works: Sequence[Work], judged: Sequence[_Judged]) -> dict[str, list[Any]]:
        lost = [(work, row) for work, row in zip(works, judged, strict=True) if row.owner is not None]
        bounds = [self._bound(work) for work, _ in lost]
        return (
            _keys([work for work, _ in lost])
            | _columns([row for _, row in lost], _LOST_COLUMNS)
            | _columns(bounds, Bound._fields)
        )

    async def _rows(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return await self._use(lambda connection: _execute(connection, statement, values))

    async def _use(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Act on a connection of the pool; what the driver raises becomes one of our own two errors."""
        try:
            # The statement's own time limit is the server's; this one covers a server that has gone without a word.
            async with asyncio.timeout(_STATEMENT_SECONDS + _CONNECT_SECONDS), self._pool.connection() as connection:
                return await act(connection)
        except _REFUSALS as error:
            raise StoreRefusedError(_say(error)) from None
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise SchemaMissingError(_say(error)) from None
        except (psycopg.Error, PoolTimeout, OSError) as error:
            raise StoreUnavailableError(_say(error)) from None


class _Judged(NamedTuple):
    """One line of what CLAIM answers; `owner` is set when its former owner's call was lost."""

    nth: int
    verdict: str
    fence: int
    claimed_at: datetime | None
    owner: str | None
    held_claim: datetime | None
    held_run: str | None
    held_model: str | None

    def claim(self, attempts: int) -> Claim:
        return Claim(Verdict(self.verdict), self.fence, self.claimed_at, attempts, self.owner is not None)


async def _execute(connection: Connection, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(statement, values, binary=True)
    return await cursor.fetchall() if cursor.description else []


def _incoming(works: Sequence[Work]) -> dict[str, list[Any]]:
    prompts = [work.prompt for work in works]
    return {
        "id": [prompt.id for prompt in prompts],
        "job": [prompt.job for prompt in prompts],
        "run": [prompt.run for prompt in prompts],
        "fingerprint": [prompt.fingerprint for prompt in prompts],
        "log": [work.record.log for work in works],
        "log_offset": [work.record.offset for work in works],
        "published_at": [work.published_at for work in works],
        "model": [work.alias for work in works],
        "prompt_length": [prompt.length for prompt in prompts],
    }


def _keys(works: Sequence[Work]) -> dict[str, list[Any]]:
    return {"job": [work.prompt.job for work in works], "id": [work.prompt.id for work in works]}


def _columns(rows: Iterable[object], names: Sequence[str]) -> dict[str, list[Any]]:
    table = list(map(attrgetter(*names), rows))
    columns = zip(*table, strict=True) if table else ([] for _ in names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def _fences(works: Sequence[Work]) -> dict[str, Any]:
    held = [work for work in works if work.claim is not None]
    return {
        "job": [work.prompt.job for work in held],
        "id": [work.prompt.id for work in held],
        "fence": [work.claim.fence for work in held if work.claim],
    }


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _say(error: BaseException) -> str:
    """Class and code of a database error; its text may quote values, so it is left out."""
    state = getattr(error, "sqlstate", None)
    return f"{type(error).__name__}{f' {state}' if state else ''}"
