"""What the store's suite needs of each kind of store beside the port itself."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, Protocol

import psycopg
from psycopg.rows import dict_row

from schemas.settings import DatabaseSettings
from tests.fakes.store import FakeStore, Row, Tables
from worker.ports import Store
from worker.store import PostgresStore

Key = tuple[str, str]


class StoreHarness(Protocol):
    """A database for a test: empty when opened."""

    async def open(self) -> None:
        """Make the database empty."""

    async def close(self) -> None:
        """Let go of it."""

    async def store(self, worker: str) -> Store:
        """A store as this worker has it."""

    async def lapse(self) -> None:
        """Let every lease run out."""

    async def row(self, id_: str, job: str = "default") -> Row:
        """A row of `results`."""

    async def count(self) -> int:
        """Rows in `results`."""

    async def calls(self, id_: str, job: str = "default") -> list[Row]:
        """The ledger lines of a row, in the order of its claims and calls."""


class FakeHarness:
    """The store in memory."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._tables = Tables(lambda: time.time() + self._ahead)

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def store(self, worker: str) -> Store:
        return FakeStore(self._tables, worker)

    async def lapse(self) -> None:
        self._ahead += 61.0

    async def row(self, id_: str, job: str = "default") -> Row:
        return self._tables.results[job, id_]

    async def count(self) -> int:
        return len(self._tables.results)

    async def calls(self, id_: str, job: str = "default") -> list[Row]:
        return self._tables.calls((job, id_))


class PostgresHarness:
    """The store in a real Postgres."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stores: dict[str, PostgresStore] = {}
        self._opened: psycopg.AsyncConnection[Row] | None = None

    async def open(self) -> None:
        if self._opened is None:
            self._opened = await psycopg.AsyncConnection.connect(self._url, autocommit=True, row_factory=dict_row)
        await self._own.execute("TRUNCATE headrace.results, headrace.attempts")

    async def close(self) -> None:
        for store in self._stores.values():
            await store.close()
        await self._own.close()

    async def store(self, worker: str) -> Store:
        if worker not in self._stores:
            store = PostgresStore(DatabaseSettings.read({"DATABASE_URL": self._url}), worker)
            await store.open()
            self._stores[worker] = store
        return self._stores[worker]

    @property
    def _own(self) -> psycopg.AsyncConnection[Row]:
        assert self._opened is not None
        return self._opened

    async def lapse(self) -> None:
        await self._own.execute(
            "UPDATE headrace.results SET claimed_until = now() - interval '1 second' WHERE status = 'claimed'"
        )

    async def row(self, id_: str, job: str = "default") -> Row:
        return (await self._ask("SELECT * FROM headrace.results WHERE job = %s AND id = %s", job, id_))[0]

    async def count(self) -> int:
        found = await self._ask("SELECT count(*) AS count FROM headrace.results")
        return int(found[0]["count"])

    async def calls(self, id_: str, job: str = "default") -> list[Row]:
        order = "SELECT * FROM headrace.attempts WHERE job = %s AND id = %s ORDER BY claimed_at, attempt"
        return await self._ask(order, job, id_)

    async def _ask(self, statement: str, *values: Any) -> list[Row]:
        return await (await self._own.execute(statement, values)).fetchall()


def in_utc(moment: datetime) -> datetime:
    """The same instant, for comparing what two clients give."""
    return moment.astimezone(UTC)
