"""Every statement of the report. Answers are compared by digest inside the database; only short labels leave it."""

from __future__ import annotations

# Of the whole session, so that they go when it ends, however it ends.
TABLES = """
CREATE TEMP TABLE old_requests (id text PRIMARY KEY, fingerprint text NOT NULL);
CREATE TEMP TABLE new_requests (id text PRIMARY KEY, fingerprint text NOT NULL)
"""
COPY_OLD = "COPY old_requests (id, fingerprint) FROM STDIN"
COPY_NEW = "COPY new_requests (id, fingerprint) FROM STDIN"
ANALYZE = "ANALYZE old_requests; ANALYZE new_requests"

# Names and values of one row's answer: its scalar fields, or the whole of it as `answer` where it is no object.
SCALARS = """
SELECT key AS name, value #>> '{}' AS value
FROM jsonb_each(CASE jsonb_typeof(result_json) WHEN 'object' THEN result_json ELSE '{}' END)
WHERE jsonb_typeof(value) NOT IN ('object', 'array')
UNION ALL
SELECT 'answer', coalesce(result_json #>> '{}', result)
WHERE jsonb_typeof(result_json) IS DISTINCT FROM 'object'
"""

# What each request of the two runs was answered, now and before its row went on. U+0001 marks a value that is too
# long for a label: its digest stands for it.
ANSWERS = f"""
CREATE TEMP TABLE answers AS
WITH wanted AS (SELECT fingerprint FROM old_requests UNION SELECT fingerprint FROM new_requests),
found AS (
    SELECT r.fingerprint, r.id, r.completed_at, r.result, r.result_json
    FROM headrace.results r JOIN wanted USING (fingerprint) WHERE r.job = %(job)s AND r.status = 'succeeded'
    UNION ALL
    SELECT r.fingerprint, r.id, r.completed_at, r.result, r.result_json
    FROM headrace.former_results r JOIN wanted USING (fingerprint) WHERE r.job = %(job)s
)
SELECT fingerprint, id, completed_at, md5(coalesce(result_json::text, result)) AS digest, (
    SELECT jsonb_object_agg(name, CASE WHEN length(value) > %(longest)s THEN U&'\\0001' || md5(value) ELSE value END)
    FROM (
    {SCALARS}
    ) scalars
) AS fields
FROM found
"""  # noqa: S608
# The rule of the backfill: the latest of the answers to a request is that of the rows that were not asked themselves.
BEST = """
CREATE TEMP TABLE best AS SELECT DISTINCT ON (fingerprint) fingerprint, digest, fields
FROM answers ORDER BY fingerprint, completed_at DESC NULLS LAST, id DESC
"""
PAIRS = """
CREATE TEMP TABLE pairs AS
WITH olds AS (
    SELECT o.id, o.fingerprint, coalesce(a.digest, b.digest) AS digest,
        CASE WHEN a.digest IS NULL THEN b.fields ELSE a.fields END AS fields
    FROM old_requests o LEFT JOIN answers a USING (fingerprint, id) LEFT JOIN best b USING (fingerprint)
), news AS (
    SELECT n.id, n.fingerprint, coalesce(a.digest, b.digest) AS digest,
        CASE WHEN a.digest IS NULL THEN b.fields ELSE a.fields END AS fields
    FROM new_requests n LEFT JOIN answers a USING (fingerprint, id) LEFT JOIN best b USING (fingerprint)
)
SELECT o.fingerprint AS old_request, n.fingerprint AS new_request, o.digest AS old_digest, n.digest AS new_digest,
    o.fields AS old_fields, n.fields AS new_fields
FROM olds o FULL JOIN news n USING (id)
"""
COUNTS = """
SELECT count(old_request) AS rows_before, count(new_request) AS rows_after,
    count(*) FILTER (WHERE old_request IS NULL) AS added,
    count(*) FILTER (WHERE new_request IS NULL) AS gone,
    count(*) FILTER (WHERE old_request <> new_request) AS asked_otherwise,
    count(DISTINCT (old_request, new_request)) FILTER (WHERE old_request <> new_request) AS requests_otherwise,
    count(*) FILTER (WHERE old_digest <> new_digest) AS changed,
    count(DISTINCT (old_request, new_request)) FILTER (WHERE old_digest <> new_digest) AS changed_requests,
    count(*) FILTER (WHERE old_digest = new_digest) AS same,
    count(*) FILTER (WHERE old_request IS NOT NULL AND new_request IS NOT NULL
        AND (old_digest IS NULL OR new_digest IS NULL)) AS not_compared
FROM pairs
"""
FIELDS = """
SELECT f.key AS name, count(DISTINCT f.value) AS distinct_values, count(f.value) AS answers,
    coalesce(bool_or(f.value LIKE U&'\\0001%%'), false) AS long
FROM best, jsonb_each_text(fields) f GROUP BY f.key ORDER BY f.key
"""
MATRIX = """
SELECT old_fields ->> %(name)s::text AS old, new_fields ->> %(name)s::text AS new, count(*) AS rows,
    count(DISTINCT (old_request, new_request)) AS requests
FROM pairs WHERE old_request IS NOT NULL AND new_request IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2
"""
# Names of runs sort as runs begin: everything after the old one, up to the new one.
COST = """
SELECT coalesce(sum(calls), 0)::bigint AS calls, coalesce(sum(low_usd), 0) AS low_usd,
    coalesce(sum(high_usd), 0) AS high_usd, coalesce(sum(unknown_calls), 0)::bigint AS unknown_calls,
    coalesce(sum(low_tokens), 0)::bigint AS low_tokens, coalesce(sum(high_tokens), 0)::bigint AS high_tokens
FROM headrace.costs WHERE job = %(job)s AND run COLLATE "C" > %(old)s AND run COLLATE "C" <= %(new)s
"""
