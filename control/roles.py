"""What each program may do in the database: one role a program, and nothing that it does not send.

`deploy/postgres/roles.sql` makes the roles; `headrace migrate --roles` gives them these rights and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, Table, text

from schemas import tables
from schemas.database import SCHEMA

OWNER = "headrace_owner"


class RolesMissingError(Exception):
    """The server does not have all of our roles."""


def _beside(*tables_: Table) -> Iterator[str]:
    """A row's keys are never changed, everything beside them is."""
    for table in tables_:
        names = ", ".join(f'"{column.name}"' for column in table.columns if not column.primary_key)
        yield f"UPDATE ({names}) ON {SCHEMA}.{table.name}"


_READS = f"SELECT ON ALL TABLES IN SCHEMA {SCHEMA}"
_RUN = "job, run, state, topic, priority, budget_usd, budget_tokens"
_COUNTS = "read, rejected, deduplicated, skipped, published"
# Role to what it is granted.
GRANTS: Mapping[str, Sequence[str]] = {
    "headrace_worker": (
        "SELECT ON headrace.results, headrace.attempts, headrace.jobs, headrace.alembic_version",
        "INSERT ON headrace.results, headrace.attempts",
        *_beside(tables.results, tables.attempts),
        "SELECT, INSERT, UPDATE, DELETE ON headrace.workers",
        "SELECT, INSERT, UPDATE ON headrace.quotas, headrace.circuits, headrace.spending",
        "EXECUTE ON FUNCTION headrace.pause_for_budget",
        "EXECUTE ON FUNCTION headrace.draw_budget",
        "EXECUTE ON FUNCTION headrace.end_run",
    ),
    "headrace_producer": (
        "SELECT ON headrace.results, headrace.former_results, headrace.attempts, headrace.jobs, headrace.workers,"
        " headrace.circuits, headrace.alembic_version",
        f"INSERT ({_RUN}) ON headrace.jobs",
        f"UPDATE (state, paused_for, {_COUNTS}, updated_at, finished_at) ON headrace.jobs",
    ),
    "headrace_backfill": (
        "SELECT ON headrace.results, headrace.former_results, headrace.backfills, headrace.jobs",
        "INSERT ON headrace.backfills",
        *_beside(tables.backfills),
    ),
    "headrace_reader": (_READS,),
    "headrace_operator": (
        _READS,
        "INSERT (job, run, state, topic, paused_for, finished_at) ON headrace.jobs",
        "UPDATE (state, paused_for, budget_usd, budget_tokens, updated_at, finished_at) ON headrace.jobs",
        "INSERT, UPDATE ON headrace.spending",
        "INSERT ON headrace.replays",
        "UPDATE (partition, log, log_offset, acknowledged_at) ON headrace.replays",
    ),
}


def require(connection: Connection) -> None:
    """Raise `RolesMissingError` unless the server knows every role."""
    missing = [
        name for name in (OWNER, *GRANTS) if connection.scalar(text("SELECT to_regrole(:r)"), {"r": name}) is None
    ]
    if missing:
        raise RolesMissingError(f"the server has no role {', '.join(missing)}")


def grant(connection: Connection) -> None:
    """Give each role exactly its rights, in one transaction: whoever is at work loses none for a moment."""
    for statement in statements():
        connection.execute(text(statement))
    connection.commit()


def statements() -> Iterator[str]:
    """What takes every right away, then gives those of `GRANTS`."""
    for role, rights in GRANTS.items():
        yield f"REVOKE ALL ON ALL TABLES IN SCHEMA {SCHEMA} FROM {role}"
        yield f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {SCHEMA} FROM {role}"
        yield f"REVOKE ALL ON SCHEMA {SCHEMA} FROM {role}"
        yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {role}"
        yield from (f"GRANT {right} TO {role}" for right in rights)
