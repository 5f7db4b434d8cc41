"""The links from a replayed dead letter to what was published in its place."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

TABLE = """
CREATE TABLE headrace.replays (
    ancestor_log text NOT NULL,
    ancestor_offset bigint NOT NULL,
    run text NOT NULL,
    ancestor text NOT NULL,
    root text NOT NULL,
    kind text NOT NULL CONSTRAINT replays_kind CHECK (kind IN ('unreadable', 'failed')),
    reason text,
    job text NOT NULL,
    id text NOT NULL,
    topic text NOT NULL,
    partition integer,
    log text,
    log_offset bigint,
    replayed_at timestamptz NOT NULL DEFAULT now(),
    acknowledged_at timestamptz,
    PRIMARY KEY (ancestor_log, ancestor_offset, run)
);
CREATE INDEX replays_row ON headrace.replays (job, id);
CREATE INDEX replays_root ON headrace.replays (root);
"""

# A link is written once; what its acknowledgement adds may be added, nothing else.
ROLES = """
DO $$
BEGIN
    IF to_regrole('headrace_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE (partition, log, log_offset, acknowledged_at) ON headrace.replays
            TO headrace_worker;
    END IF;
    IF to_regrole('headrace_reader') IS NOT NULL THEN
        GRANT SELECT ON headrace.replays TO headrace_reader;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Add the table."""
    for script in (TABLE, ROLES):
        op.execute(script)


def downgrade() -> None:
    """Take the table away, and with it the memory of what was replayed."""
    op.execute("DROP TABLE headrace.replays")
