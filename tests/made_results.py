"""A run in the database as workers leave it, made by one statement a table: so many rows over an hour."""

from __future__ import annotations

import psycopg

JOB, RUN = "reviews", "20261101T000000"
HOSTILE = "<script>alert(1)</script>"

_JOBS = """
INSERT INTO headrace.jobs (job, run, state, topic, read, rejected, published, budget_usd)
VALUES (%(job)s, %(run)s, 'running', 'headrace.prompts.reviews', %(rows)s + 120, 120, %(rows)s + 2000, 60)
"""
# 3 in 100 rows fail, for four reasons; the rate swells and ebbs over the hour, and nothing ends for four minutes.
_RESULTS = """
INSERT INTO headrace.results (job, id, run, fingerprint, status, reason, result, result_json, completed_at)
SELECT %(job)s, 'r-' || n, %(run)s, md5(n::text), CASE WHEN n %% 100 < 3 THEN 'failed' ELSE 'succeeded' END,
    CASE WHEN n %% 100 < 3 THEN (ARRAY['timeout', 'invalid_output', 'filtered', 'too_long'])
        [1 + least(3, (n / 100 %% 9) / 2)] END,
    'a private story of ' || n,
    CASE WHEN n %% 100 >= 3 THEN jsonb_build_object(
        'label', (ARRAY['positive', 'negative', %(hostile)s])[1 + least(2, (n / 7) %% 5 / 2)],
        'urgent', n %% 11 = 0, 'story', 'private ' || n) END,
    TIMESTAMPTZ '2026-11-01 08:00:30+00' + make_interval(secs =>
        CASE WHEN at > 0.6 THEN 0.07 ELSE 0 END * 3600 + 3300 * (at + 0.05 * sin(at * 12)))
FROM (SELECT n, n::float8 / %(rows)s AS at FROM generate_series(0, %(rows)s - 1) n) numbered
"""
_ATTEMPTS = """
INSERT INTO headrace.attempts (job, id, attempt, run, outcome, billed, prompt_tokens, completion_tokens, latency_ms,
    cost_usd, cost_bound_usd, tokens_bound, model, endpoint, started_at, finished_at)
SELECT job, id, attempt, run,
    CASE WHEN attempt < calls THEN (ARRAY['rate_limited', 'server_error', 'timeout'])[1 + n %% 3]
        WHEN status = 'failed' THEN reason ELSE 'succeeded' END,
    CASE WHEN attempt = calls THEN 'yes' WHEN n %% 3 = 2 THEN 'maybe' ELSE 'no' END,
    CASE WHEN attempt = calls THEN 200 + n %% 90 END, CASE WHEN attempt = calls THEN 20 + n %% 9 END,
    (300 + 200 * sin(n / 9000.0) + 150 * (-ln(1 - (n * 7919 %% 100003) / 100003.0)))::bigint,
    CASE WHEN attempt = calls THEN 0.0004 ELSE CASE WHEN n %% 3 = 2 THEN NULL ELSE 0 END END,
    CASE WHEN attempt < calls AND n %% 3 = 2 THEN 0.01 END, CASE WHEN attempt < calls AND n %% 3 = 2 THEN 900 END,
    (ARRAY['small-8b', 'large-70b'])[1 + (n %% 4) / 3], (ARRAY['local', 'hosted'])[1 + (n %% 4) / 3],
    completed_at - interval '1 second', completed_at
FROM (
    SELECT *, substr(id, 3)::bigint AS n,
        1 + (substr(id, 3)::bigint %% 17 = 0)::int + (substr(id, 3)::bigint %% 999 = 0)::int AS calls
    FROM headrace.results WHERE job = %(job)s
) made, generate_series(1, calls) attempt
"""


def make_results(url: str, rows: int) -> None:
    """Fill an empty database that has our tables."""
    with psycopg.connect(url) as connection:
        for statement in (_JOBS, _RESULTS, _ATTEMPTS):
            connection.execute(statement, {"job": JOB, "run": RUN, "rows": rows, "hostile": HOSTILE})
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE headrace.results, headrace.attempts")
