"""Every statement of the orders for jobs."""

from __future__ import annotations

RUNS = """
SELECT j.run, j.state, j.topic, j.paused_for, j.budget_usd, j.budget_tokens,
    coalesce(s.usd, 0) AS spent_usd, coalesce(s.tokens, 0) AS spent_tokens
FROM headrace.jobs j
LEFT JOIN LATERAL (
    SELECT sum(spent_usd) AS usd, sum(spent_tokens)::bigint AS tokens FROM headrace.spending
    WHERE job = j.job AND run = j.run
) s ON true
WHERE j.job = %(job)s ORDER BY j.created_at, j.run FOR UPDATE OF j
"""

# The instant of a cancel counts for messages that name no recorded run: those published until then end.
ORDER = """
INSERT INTO headrace.jobs AS j (job, run, state, topic, paused_for, finished_at)
VALUES (%(job)s, %(run)s, %(state)s, %(topic)s, %(paused_for)s,
    CASE WHEN %(state)s = 'cancelled' THEN clock_timestamp() END)
ON CONFLICT (job, run) DO UPDATE SET state = excluded.state, paused_for = excluded.paused_for, updated_at = now(),
    finished_at = coalesce(excluded.finished_at, j.finished_at)
"""

RAISE = """
UPDATE headrace.jobs SET updated_at = now(),
    budget_usd = coalesce(%(usd)s, budget_usd), budget_tokens = coalesce(%(tokens)s, budget_tokens)
WHERE job = %(job)s AND run = %(run)s
"""

# A run that has its first budget of a kind has spent something before: nobody's grant, and the upper end of what its
# calls may have cost.
COUNT_SO_FAR = """
INSERT INTO headrace.spending AS s (job, run, worker, granted_usd, spent_usd, granted_tokens, spent_tokens)
SELECT c.job, c.run, '', n.usd, n.usd, n.tokens, n.tokens
FROM headrace.costs c, LATERAL (
    SELECT CASE WHEN %(usd)s THEN c.high_usd ELSE 0 END AS usd,
        CASE WHEN %(tokens)s THEN c.high_tokens ELSE 0 END AS tokens
) n
WHERE c.job = %(job)s AND c.run = %(run)s
ON CONFLICT (job, run, worker) DO UPDATE SET
    granted_usd = s.granted_usd + excluded.granted_usd, spent_usd = s.spent_usd + excluded.spent_usd,
    granted_tokens = s.granted_tokens + excluded.granted_tokens, spent_tokens = s.spent_tokens + excluded.spent_tokens
"""

HAS_RESULTS = """
SELECT EXISTS (SELECT FROM headrace.results WHERE job = %(job)s AND (%(run)s::text IS NULL OR run = %(run)s))
"""

# Each job of `results` by one look into the index: there are few jobs and very many rows.
JOBS = """
WITH RECURSIVE found AS (
    SELECT min(job) AS job FROM headrace.results
    UNION ALL
    SELECT (SELECT min(r.job) FROM headrace.results r WHERE r.job > f.job) FROM found f WHERE f.job IS NOT NULL
)
SELECT job FROM found WHERE job IS NOT NULL UNION SELECT job FROM headrace.jobs
"""
