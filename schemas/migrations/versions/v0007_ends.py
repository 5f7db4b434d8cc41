"""How a run comes to be done: workers, who may change nothing else of it, say that all its messages have ended."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"

# Only as long as nobody has changed the run since `until`, up to when its messages are known to have ended.
END = """
CREATE FUNCTION headrace.end_run(its_job text, its_run text, until timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$
    WITH ended AS (
        UPDATE headrace.jobs SET state = 'done', finished_at = now(), updated_at = now()
        WHERE job = its_job AND run = its_run AND state = 'running' AND topic IS NOT NULL AND updated_at <= until
        RETURNING job
    )
    SELECT EXISTS (SELECT FROM ended)
$$;
REVOKE ALL ON FUNCTION headrace.end_run(text, text, timestamptz) FROM PUBLIC;
"""

ROLES = """
DO $$
BEGIN
    IF to_regrole('headrace_worker') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION headrace.end_run(text, text, timestamptz) TO headrace_worker;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Add the function."""
    for script in (END, ROLES):
        op.execute(script)


def downgrade() -> None:
    """Take it away: runs stay open, as they did before."""
    op.execute("DROP FUNCTION headrace.end_run(text, text, timestamptz)")
