"""Answers found by their request: an index on results, and the answers that rows have left behind."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

# Built beside running writers. One that was broken off leaves an index that nobody uses, so it is begun anew. It
# waits for transactions, which wait for nothing of it: no time-out has to end that.
INDEX = """
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS headrace.results_requests;
CREATE INDEX CONCURRENTLY results_requests ON headrace.results (job, fingerprint) WHERE status <> 'claimed';
SET lock_timeout = '30s'
"""

TABLE = """
CREATE TABLE headrace.former_results (
    job text NOT NULL,
    fingerprint text NOT NULL,
    id text NOT NULL,
    run text,
    status text NOT NULL CONSTRAINT former_results_status CHECK (status IN ('succeeded')),
    reason text,
    result text,
    result_json jsonb,
    sanitised boolean NOT NULL DEFAULT false,
    finish_reason text,
    prompt_tokens bigint,
    completion_tokens bigint,
    latency_ms bigint,
    retry_count integer NOT NULL DEFAULT 0,
    model text,
    model_answered text,
    endpoint text,
    cost_usd numeric,
    completed_at timestamptz,
    kept_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job, fingerprint, id)
);
"""

# The id is in the key, so that two workers never wait for each other here: whoever changes a row of `results` holds
# its lock already. Workers of any release keep answers this way, and need no right to the table.
KEEP = """
CREATE FUNCTION headrace.keep_answer() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    DELETE FROM headrace.former_results AS kept
    WHERE kept.job = OLD.job AND kept.fingerprint = OLD.fingerprint AND kept.id = OLD.id;
    INSERT INTO headrace.former_results (job, fingerprint, id, run, status, reason, result, result_json, sanitised,
        finish_reason, prompt_tokens, completion_tokens, latency_ms, retry_count, model, model_answered, endpoint,
        cost_usd, completed_at)
    VALUES (OLD.job, OLD.fingerprint, OLD.id, OLD.run, OLD.status, OLD.reason, OLD.result, OLD.result_json,
        OLD.sanitised, OLD.finish_reason, OLD.prompt_tokens, OLD.completion_tokens, OLD.latency_ms, OLD.retry_count,
        OLD.model, OLD.model_answered, OLD.endpoint, OLD.cost_usd, OLD.completed_at);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION headrace.keep_answer() FROM PUBLIC;
CREATE TRIGGER results_keep_answer AFTER UPDATE ON headrace.results FOR EACH ROW
    WHEN (OLD.status = 'succeeded' AND OLD.fingerprint IS NOT NULL
        AND OLD.fingerprint IS DISTINCT FROM NEW.fingerprint)
    EXECUTE FUNCTION headrace.keep_answer();
"""

ROLES = """
DO $$
BEGIN
    IF to_regrole('headrace_worker') IS NOT NULL THEN
        GRANT SELECT ON headrace.former_results TO headrace_worker;
    END IF;
    IF to_regrole('headrace_reader') IS NOT NULL THEN
        GRANT SELECT ON headrace.former_results TO headrace_reader;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Build the index outside any transaction, then add the table and what fills it."""
    with op.get_context().autocommit_block():
        for statement in INDEX.split(";"):
            op.execute(statement)
    for script in (TABLE, KEEP, ROLES):
        op.execute(script)


def downgrade() -> None:
    """Take them away, and with them the answers that rows have left behind."""
    op.execute("DROP TRIGGER results_keep_answer ON headrace.results")
    op.execute("DROP FUNCTION headrace.keep_answer()")
    op.execute("DROP TABLE headrace.former_results")
    op.execute("DROP INDEX headrace.results_requests")
