"""The tables, the commit-safe cursor's column, the monthly partitions of the ledger, and the roles."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

TABLES = """
CREATE TABLE headrace.results (
    job text NOT NULL,
    id text NOT NULL,
    run text,
    fingerprint text,
    status text NOT NULL CONSTRAINT results_status CHECK (status IN ('claimed', 'succeeded', 'failed')),
    reason text CONSTRAINT results_reason CHECK (reason IN (
        'truncated', 'filtered', 'refused', 'too_long', 'invalid_output', 'malformed_response',
        'rejected_request', 'auth', 'quota', 'rate_limited', 'server_error', 'timeout', 'connection',
        'attempts_exhausted', 'crashed', 'cancelled', 'expired')),
    result text,
    result_json jsonb,
    sanitised boolean NOT NULL DEFAULT false,
    finish_reason text,
    prompt_tokens bigint,
    completion_tokens bigint,
    latency_ms bigint,
    prompt_length bigint,
    result_length bigint,
    retry_count integer NOT NULL DEFAULT 0,
    error_msg text,
    model text,
    model_answered text,
    endpoint text,
    cost_usd numeric,
    worker text,
    claimed_until timestamptz,
    published_at timestamptz,
    completed_at timestamptz,
    log text,
    log_offset bigint,
    fence bigint NOT NULL DEFAULT 0,
    starts integer NOT NULL DEFAULT 0,
    claimed_at timestamptz,
    version_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (job, id)
) WITH (fillfactor = 80);
CREATE INDEX results_finished ON headrace.results (job, version_xid) WHERE status <> 'claimed';

CREATE TABLE headrace.attempts (
    job text NOT NULL,
    id text NOT NULL,
    attempt integer NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    run text,
    outcome text NOT NULL,
    http_status integer,
    billed text NOT NULL CONSTRAINT attempts_billed CHECK (billed IN ('yes', 'no', 'maybe')),
    prompt_tokens bigint,
    completion_tokens bigint,
    latency_ms bigint,
    cost_usd numeric,
    model text,
    endpoint text,
    worker text,
    started_at timestamptz,
    finished_at timestamptz,
    detail text,
    PRIMARY KEY (job, id, attempt, claimed_at)
) PARTITION BY RANGE (claimed_at);
CREATE TABLE headrace.attempts_other PARTITION OF headrace.attempts DEFAULT;

CREATE TABLE headrace.jobs (
    job text NOT NULL,
    run text NOT NULL,
    state text NOT NULL CONSTRAINT jobs_state CHECK (state IN ('canary', 'running', 'paused', 'cancelled', 'done')),
    topic text,
    read bigint NOT NULL DEFAULT 0,
    rejected bigint NOT NULL DEFAULT 0,
    deduplicated bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    published bigint NOT NULL DEFAULT 0,
    budget_usd numeric,
    budget_tokens bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (job, run)
);
"""

# Anybody's plain UPDATE of a finished row must move it past the readers' cursor; our own statements set the
# column themselves, and the condition spares them the call.
CURSOR = """
CREATE FUNCTION headrace.stamp_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version_xid := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE TRIGGER results_stamp_version BEFORE UPDATE ON headrace.results FOR EACH ROW
    WHEN (NEW.status <> 'claimed' AND NEW.version_xid = OLD.version_xid)
    EXECUTE FUNCTION headrace.stamp_version();
"""

# Rows that came before their month had a partition keep it from being made; they stay where they are.
PARTITIONS = """
CREATE FUNCTION headrace.make_partitions(months_ahead integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first_day date;
BEGIN
    FOR month IN 0..months_ahead LOOP
        first_day := (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => month))::date;
        BEGIN
            EXECUTE format(
                'CREATE TABLE IF NOT EXISTS headrace.%I PARTITION OF headrace.attempts FOR VALUES FROM (%L) TO (%L)',
                'attempts_' || to_char(first_day, 'YYYY_MM'),
                first_day || ' 00:00+00', (first_day + interval '1 month')::date || ' 00:00+00');
        EXCEPTION WHEN check_violation THEN
            RAISE NOTICE 'attempts of % stay in attempts_other', first_day;
        END;
    END LOOP;
END $$;
"""

# Roles belong to the whole server, so another database may have made them already; without the right to make
# roles the tables still stand, and the administrator grants access by hand. A worker may update all but the keys.
ROLES = """
DO $$
DECLARE
    role_name text;
    table_name text;
    names text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['headrace_owner', 'headrace_worker', 'headrace_reader'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE WARNING 'role % was not made: the migrating user may not create roles', role_name;
        END;
    END LOOP;
    IF to_regrole('headrace_worker') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA headrace TO headrace_worker;
        GRANT SELECT, INSERT ON headrace.results, headrace.attempts TO headrace_worker;
        FOR table_name, names IN
            SELECT c.table_name, string_agg(quote_ident(c.column_name), ', ') FROM information_schema.columns c
            WHERE c.table_schema = 'headrace' AND c.table_name IN ('results', 'attempts')
                AND c.column_name NOT IN ('job', 'id', 'attempt')
                AND NOT (c.table_name = 'attempts' AND c.column_name = 'claimed_at')
            GROUP BY c.table_name
        LOOP
            EXECUTE format('GRANT UPDATE (%s) ON headrace.%I TO headrace_worker', names, table_name);
        END LOOP;
        GRANT SELECT ON headrace.jobs, headrace.alembic_version TO headrace_worker;
    END IF;
    IF to_regrole('headrace_reader') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA headrace TO headrace_reader;
        GRANT SELECT ON headrace.results, headrace.attempts, headrace.jobs, headrace.alembic_version
            TO headrace_reader;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Make everything."""
    for script in (TABLES, CURSOR, PARTITIONS, ROLES):
        op.execute(script)


def downgrade() -> None:
    """Take the tables away; roles stay, since other databases of the server may use them."""
    op.execute("DROP TABLE headrace.results, headrace.attempts, headrace.jobs")
    op.execute("DROP FUNCTION headrace.stamp_version, headrace.make_partitions(integer)")
