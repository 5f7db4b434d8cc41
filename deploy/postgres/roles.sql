-- One role for each program, with nothing but the way in. Run it once a database, as an administrator of the server and
-- connected to Headrace's own database; it may be run again:
--
--   psql -v ON_ERROR_STOP=1 --single-transaction -f deploy/postgres/roles.sql "$ADMIN_DATABASE_URL"
--
-- Then give each a password (psql: \password headrace_worker), which none has here, and carry out
-- `headrace migrate --roles` as headrace_owner, now and at each release: that says what each may do (control/roles.py).
DO $$
DECLARE
    role_name text;
    object record;
BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    FOREACH role_name IN ARRAY ARRAY['headrace_owner', 'headrace_worker', 'headrace_producer', 'headrace_backfill',
        'headrace_reader', 'headrace_operator'] LOOP
        IF to_regrole(role_name) IS NULL THEN
            EXECUTE format('CREATE ROLE %I', role_name);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN', role_name);
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role_name);
    END LOOP;
    -- The owner makes the schema; operators compare and reconcile in tables of their session.
    EXECUTE format('GRANT CREATE ON DATABASE %I TO headrace_owner', current_database());
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO headrace_operator', current_database());

    -- Tables that somebody else has made before go to the owner, with the functions that act in its name.
    IF to_regnamespace('headrace') IS NOT NULL THEN
        ALTER SCHEMA headrace OWNER TO headrace_owner;
        FOR object IN
            SELECT format('%s headrace.%I', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, relname) AS name
            FROM pg_class WHERE relnamespace = to_regnamespace('headrace') AND relkind IN ('r', 'p', 'v')
            UNION ALL
            SELECT 'FUNCTION ' || oid::regprocedure FROM pg_proc WHERE pronamespace = to_regnamespace('headrace')
        LOOP
            EXECUTE format('ALTER %s OWNER TO headrace_owner', object.name);
        END LOOP;
    END IF;
END $$;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;

-- What waits on a lock or has forgotten its transaction holds up others. Workers and the backfill set their own limits.
ALTER ROLE headrace_producer SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE headrace_operator SET idle_in_transaction_session_timeout = '15min';
ALTER ROLE headrace_reader SET statement_timeout = '10min';
ALTER ROLE headrace_reader SET idle_in_transaction_session_timeout = '15min';
-- Scrapes and reports never take the connections that the fleet needs.
ALTER ROLE headrace_reader CONNECTION LIMIT 20;
