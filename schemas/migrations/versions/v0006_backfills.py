"""How far each target has come: the transaction below which its last backfill has read every answer."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

TABLE = """
CREATE TABLE headrace.backfills (
    job text NOT NULL,
    target text NOT NULL,
    cursor xid8 NOT NULL,
    results bigint NOT NULL,
    rows bigint NOT NULL,
    joined bigint NOT NULL,
    failed bigint NOT NULL,
    written bigint NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job, target)
);
"""

ROLES = """
DO $$
BEGIN
    IF to_regrole('headrace_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT ON headrace.backfills TO headrace_worker;
        GRANT UPDATE (cursor, results, rows, joined, failed, written, started_at, finished_at)
            ON headrace.backfills TO headrace_worker;
    END IF;
    IF to_regrole('headrace_reader') IS NOT NULL THEN
        GRANT SELECT ON headrace.backfills TO headrace_reader;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Add the table."""
    for script in (TABLE, ROLES):
        op.execute(script)


def downgrade() -> None:
    """Take it away: every target is read in full once more."""
    op.execute("DROP TABLE headrace.backfills")
