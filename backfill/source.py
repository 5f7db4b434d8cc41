"""Finished results out of Postgres: one snapshot for a whole run, read in parallel and in bounded memory.

The only file that knows the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
import pyarrow as pa
from psycopg import sql
from pydantic import SecretStr

from backfill.errors import (
    AlreadyRunningError,
    NotAllowedError,
    ReadError,
    RunFailedError,
    UnreachableError,
    WrongJobError,
)
from backfill.results import parse, selected

# Bytes of CSV that one Arrow batch is made of; with a few copies on the way this bounds a task's memory.
BATCH_BYTES = 8 * 1024 * 1024
_CONNECT_S = 10
_KEEPALIVE_S = 30
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Another value after a start, a fail-over, a restore or a new database: transactions may since be numbered anew.
_SERVER = """(
    SELECT concat_ws(':', extract(epoch FROM pg_postmaster_start_time()), oid)
    FROM pg_database WHERE datname = current_database()
)"""
# Whether a cursor says nothing about the database that is asked.
ALIEN = f"(%(server)s <> {_SERVER} OR %(since)s::xid8 > pg_snapshot_xmax(pg_current_snapshot()))"


@dataclass(frozen=True, slots=True)
class Cursor:
    """The transaction below which every result was read, and the run of the database server that numbered it."""

    xid: str
    server: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the finished results of a job, which any number of connections can read while it is held.

    `cursor`: what a later run may begin at. `since`: the transaction from which on results are asked for, None if
    all are; `fresh` of `count` results are at or above it. `taken_at`: when, on the database's clock.
    """

    url: SecretStr
    job: str
    name: str
    count: int
    cursor: Cursor = Cursor("0", "")
    since: str | None = None
    fresh: int = 0
    taken_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Query:
    """What to read of a snapshot: in how many parts, which columns, from which cursor on.

    With `former`, also answers left behind.
    """

    snapshot: Snapshot
    parts: int
    columns: Sequence[str]
    former: bool = False
    since: str | None = None


class Session:
    """One database session for a whole run: it holds the lock on the target and the snapshot that tasks read.

    Use it from the driver's main thread only; when it ends, by whatever death, Postgres frees both.
    """

    def __init__(self, connection: psycopg.Connection, snapshot: Snapshot) -> None:
        self._connection = connection
        self.snapshot = snapshot

    def check(self) -> None:
        """Raise `RunFailedError` unless lock and snapshot are still held: call it just before the target changes."""
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error as error:
            raise RunFailedError(
                f"the database session that holds the lock on the target was lost ({type(error).__name__}), "
                "so nothing was written: start the backfill again"
            ) from error


@contextmanager
def database_session(url: SecretStr, job: str, target: str, since: Cursor | None = None) -> Iterator[Session]:
    """Take the lock on a target and a snapshot of a job's finished results, and hold both.

    A cursor `since` that another run of the server gave, or that this one has not reached, asks for everything.

    Raises `AlreadyRunningError` if another backfill holds the lock, `UnreachableError` if the database does not
    answer, `WrongJobError` if it has no tables of ours.
    """
    with closing(_connect(url)) as connection:
        try:
            _lock(connection, target)
            held = Session(connection, _snapshot(connection, url, job, since))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise WrongJobError(
                "DATABASE_URL: not all tables of headrace are there: run `headrace migrate`"
            ) from None
        except psycopg.Error as error:
            raise UnreachableError(f"the database refused to start a read: {_say(error)}") from None
        yield held


def rows_of(query: Query, number: int) -> Iterator[pa.RecordBatch]:
    """Read one part, from 0: the rows whose id hashes to it, so the parts are disjoint and even.

    Raises `ReadError` without any value of a row.
    """
    try:
        with closing(_connect(query.snapshot.url)) as connection:
            _see(connection, query.snapshot)
            # The parts are read at once already: workers of the server only pass rows on, which takes 5 to 20 % more.
            connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
            with connection.cursor().copy(_copy(query, number)) as rows:
                yield from (parse(piece, query.columns) for piece in _pieces(rows))
    except (psycopg.Error, UnreachableError) as error:
        raise ReadError(f"reading results from the database failed: {_say(error)}") from None


@contextmanager
def asking(url: SecretStr) -> Iterator[psycopg.Connection]:
    """Open a connection for a short question; raises `UnreachableError`, or `NotAllowedError` for want of a right."""
    try:
        with closing(_connect(url)) as connection:
            yield connection
    except psycopg.errors.InsufficientPrivilege as error:
        raise NotAllowedError(_say(error)) from None
    except psycopg.Error as error:
        raise UnreachableError(f"the database refused: {_say(error)}") from None


@contextmanager
def in_snapshot(snapshot: Snapshot) -> Iterator[psycopg.Connection]:
    """Open a connection that sees what a snapshot does, while that is held; raises as `asking` does."""
    with asking(snapshot.url) as connection:
        _see(connection, snapshot)
        yield connection


def _see(connection: psycopg.Connection, snapshot: Snapshot) -> None:
    connection.execute(_BEGIN)
    connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot.name)))


def _connect(url: SecretStr) -> psycopg.Connection:
    try:
        connection = psycopg.connect(
            url.get_secret_value(),
            autocommit=True,
            connect_timeout=_CONNECT_S,
            keepalives_idle=_KEEPALIVE_S,
            client_encoding="utf8",
            application_name="headrace-backfill",
        )
        # A long read is meant to be long, whatever the server's defaults are.
        connection.execute("SET statement_timeout = 0")
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        # A task that is killed while it waits for a lock leaves none waiting; not every server can look for it.
        with suppress(psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject):
            connection.execute("SET client_connection_check_interval = '5s'")
    except psycopg.Error as error:
        raise UnreachableError(f"the database cannot be reached, check DATABASE_URL: {_say(error)}") from None
    return connection


def _lock(connection: psycopg.Connection, target: str) -> None:
    taken = connection.execute(
        "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [f"headrace.backfill:{target}"]
    ).fetchone()
    if not taken or not taken[0]:
        raise AlreadyRunningError("another backfill of this target is already running; nothing was done")


def _snapshot(connection: psycopg.Connection, url: SecretStr, job: str, since: Cursor | None) -> Snapshot:
    connection.execute(_BEGIN)
    connection.execute("SELECT FROM headrace.former_results LIMIT 0")
    asked = since or Cursor("0", "")
    found = connection.execute(
        sql.SQL(
            f"SELECT pg_export_snapshot(), count(*), pg_snapshot_xmin(pg_current_snapshot())::text, {_SERVER}, "
            f"{ALIEN}, count(*) FILTER (WHERE version_xid >= %(since)s::xid8), now() {{}}"
        ).format(_finished(job)),
        {"since": asked.xid, "server": asked.server},
    ).fetchone()
    assert found is not None
    name, count, xmin, server, alien, fresh, taken_at = found
    told, fresh = (None, count) if since is None or alien else (since.xid, fresh)
    return Snapshot(url, job, name, count, Cursor(xmin, server), told, fresh, taken_at)


def _finished(job: str, since: str | None = None) -> sql.Composed:
    rows = sql.SQL("FROM headrace.results WHERE job = {} AND status <> 'claimed'").format(sql.Literal(job))
    if since is None:
        return rows
    return rows + sql.SQL(" AND version_xid >= {}::xid8").format(sql.Literal(since))


def _copy(query: Query, number: int) -> sql.Composed:
    part = sql.SQL("(hashtextextended(id, 0) & 9223372036854775807) % {} = {}").format(
        sql.Literal(query.parts), sql.Literal(number)
    )
    tables = [sql.SQL("(SELECT *, false AS former {})").format(_finished(query.snapshot.job, query.since))]
    if query.former:
        former = "(SELECT *, true AS former FROM headrace.former_results WHERE job = {})"
        tables.append(sql.SQL(former).format(sql.Literal(query.snapshot.job)))
    wanted = sql.SQL("SELECT {} FROM {} AS known WHERE {}")
    selects = [wanted.format(sql.SQL(selected(query.columns)), table, part) for table in tables]
    return sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(sql.SQL(" UNION ALL ").join(selects))


def _pieces(rows: psycopg.Copy) -> Iterator[bytearray]:
    """Gather whole rows, which the protocol sends one by one, into pieces of about `BATCH_BYTES`."""
    gathered = bytearray()
    for row in rows:
        gathered += row
        if len(gathered) >= BATCH_BYTES:
            yield gathered
            gathered = bytearray()
    if gathered:
        yield gathered


def _say(error: BaseException) -> str:
    """The first line of what the driver says: names and addresses, never a statement or a value."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
