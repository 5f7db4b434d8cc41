"""The cursor over results: a transaction below which a target has read every answer, whenever it was committed.

A sequence or a clock would miss answers: a transaction that began early may commit late. So the cursor is the oldest
transaction that was still running when the snapshot of a run was taken: everything below it was visible to that run
or never will be, and what is at or above it is read again, which changes nothing.
"""

from __future__ import annotations

from contextlib import suppress

from pydantic import SecretStr

from backfill.counts import Counts
from backfill.errors import NotAllowedError
from backfill.source import ALIEN, Cursor, Snapshot, asking

# By the index on (job, version_xid): one look, however many results there are.
_NEWS = f"""
SELECT {ALIEN} OR EXISTS (
    SELECT FROM headrace.results WHERE job = %(job)s AND status <> 'claimed' AND version_xid >= %(since)s::xid8
)
"""  # noqa: S608
_KEEP = """
INSERT INTO headrace.backfills (job, target, cursor, results, rows, joined, failed, written, started_at)
VALUES (%(job)s, %(target)s, %(cursor)s::xid8, %(results)s, %(rows)s, %(joined)s, %(failed)s, %(written)s, %(at)s)
ON CONFLICT (job, target) DO UPDATE SET cursor = excluded.cursor, results = excluded.results, rows = excluded.rows,
    joined = excluded.joined, failed = excluded.failed, written = excluded.written,
    started_at = excluded.started_at, finished_at = now()
"""
_SEEN = "UPDATE headrace.backfills SET finished_at = now() WHERE job = %s AND target = %s"


def news(url: SecretStr, job: str, since: Cursor) -> bool:
    """Tell whether any answer may have come since a cursor; true if the cursor is not of this run of the server.

    Raises `UnreachableError`.
    """
    with asking(url) as connection:
        row = connection.execute(_NEWS, {"job": job, "since": since.xid, "server": since.server}).fetchone()
        return bool(row and row[0])


def keep(snapshot: Snapshot, target: str, counts: Counts) -> bool:
    """Record a run whose target is written; False when the user may not, which costs only what watchers see of it.

    Raises `UnreachableError`.
    """
    values = {"job": snapshot.job, "target": target, "cursor": snapshot.cursor.xid, "at": snapshot.taken_at}
    values |= {name: getattr(counts, name) for name in ("results", "rows", "joined", "failed", "written")}
    try:
        with asking(snapshot.url) as connection:
            connection.execute(_KEEP, values)
    except NotAllowedError:
        return False
    return True


def seen(url: SecretStr, job: str, target: str) -> None:
    """Record that a target is up to date as it is, if the user may; raises `UnreachableError`."""
    with suppress(NotAllowedError), asking(url) as connection:
        connection.execute(_SEEN, (job, target))
