"""What the workers of a fleet share: who lives, slots of rate limits, circuits, orders for jobs, what is spent."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

# Each is a few rows that many write: room on the page keeps their updates out of the indexes.
TABLES = """
CREATE TABLE headrace.workers (
    worker text PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    in_flight integer NOT NULL DEFAULT 0,
    open integer NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

CREATE TABLE headrace.quotas (
    endpoint text NOT NULL,
    unit text NOT NULL CONSTRAINT quotas_unit CHECK (unit IN ('requests', 'tokens')),
    next_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (endpoint, unit)
) WITH (fillfactor = 20);

CREATE TABLE headrace.circuits (
    endpoint text PRIMARY KEY,
    faults integer NOT NULL DEFAULT 0,
    faulted_at timestamptz,
    opened_at timestamptz,
    reason text,
    detail text,
    probe_at timestamptz,
    probe_seconds double precision NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

ALTER TABLE headrace.jobs
    ADD COLUMN priority integer NOT NULL DEFAULT 0,
    ADD COLUMN paused_for text CONSTRAINT jobs_paused_for CHECK (paused_for IN ('operator', 'budget'));

CREATE TABLE headrace.spending (
    job text NOT NULL,
    run text NOT NULL,
    worker text NOT NULL,
    granted_usd numeric NOT NULL DEFAULT 0,
    granted_tokens bigint NOT NULL DEFAULT 0,
    spent_usd numeric NOT NULL DEFAULT 0,
    spent_tokens bigint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job, run, worker)
) WITH (fillfactor = 50);
"""

# All that a worker changes of a run: it pauses one whose budget is used up.
PAUSE = """
CREATE FUNCTION headrace.pause_for_budget(its_job text, its_run text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$
    UPDATE headrace.jobs SET state = 'paused', paused_for = 'budget', updated_at = now()
    WHERE job = its_job AND run = its_run AND state IN ('canary', 'running')
$$;
REVOKE ALL ON FUNCTION headrace.pause_for_budget(text, text) FROM PUBLIC;
"""

ROLES = """
DO $$
BEGIN
    IF to_regrole('headrace_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON headrace.workers TO headrace_worker;
        GRANT SELECT, INSERT, UPDATE ON headrace.quotas, headrace.circuits, headrace.spending TO headrace_worker;
        GRANT EXECUTE ON FUNCTION headrace.pause_for_budget(text, text) TO headrace_worker;
    END IF;
    IF to_regrole('headrace_reader') IS NOT NULL THEN
        GRANT SELECT ON headrace.workers, headrace.quotas, headrace.circuits, headrace.spending TO headrace_reader;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Add the tables and columns."""
    for script in (TABLES, PAUSE, ROLES):
        op.execute(script)


def downgrade() -> None:
    """Take them away."""
    op.execute("DROP FUNCTION headrace.pause_for_budget(text, text)")
    op.execute("DROP TABLE headrace.workers, headrace.quotas, headrace.circuits, headrace.spending")
    op.execute("ALTER TABLE headrace.jobs DROP COLUMN priority, DROP COLUMN paused_for")
