"""Every statement of the report's page: one a question, each summed up in the database."""

from __future__ import annotations

from control.report.statements import SCALARS

# Between which moments rows have ended and calls were made.
TIMES = """
SELECT min(first) AS first, max(last) AS last FROM (
    SELECT min(completed_at) AS first, max(completed_at) AS last FROM headrace.results
    WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s) AND status <> 'claimed'
    UNION ALL
    SELECT min(coalesce(finished_at, started_at, claimed_at)), max(coalesce(finished_at, started_at, claimed_at))
    FROM headrace.attempts
    WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s)
) both_tables
"""

ENDED = """
SELECT floor(extract(epoch FROM completed_at) / %(width)s)::bigint - %(first)s AS stretch,
    count(*) FILTER (WHERE status = 'succeeded') AS succeeded, count(*) FILTER (WHERE status = 'failed') AS failed
FROM headrace.results
WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s)
    AND status <> 'claimed' AND completed_at IS NOT NULL
GROUP BY 1 ORDER BY 1
"""

LATENCIES = """
SELECT stretch, calls, quantiles[1] AS p50, quantiles[2] AS p95, quantiles[3] AS p99 FROM (
    SELECT floor(extract(epoch FROM coalesce(finished_at, started_at, claimed_at)) / %(width)s)::bigint - %(first)s
            AS stretch, count(*) AS calls,
        percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY latency_ms) AS quantiles
    FROM headrace.attempts
    WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s)
    AND latency_ms IS NOT NULL GROUP BY 1
) measured ORDER BY stretch
"""

OUTCOMES = """
SELECT outcome, count(*) AS calls, count(*) FILTER (WHERE attempt > 1) AS retries,
    count(*) FILTER (WHERE billed = 'maybe') AS maybe_billed
FROM headrace.attempts
WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s)
GROUP BY outcome ORDER BY calls DESC, outcome
"""

# What the view of the costs sums up by run, by model and endpoint: the sums of both are the same.
SPENT = """
SELECT coalesce(model, '') AS model, coalesce(endpoint, '') AS endpoint, count(*) AS calls,
    coalesce(sum(prompt_tokens), 0)::bigint AS prompt_tokens,
    coalesce(sum(completion_tokens), 0)::bigint AS completion_tokens,
    coalesce(sum(cost_usd), 0) AS low_usd, coalesce(sum(coalesce(cost_usd, cost_bound_usd)), 0) AS high_usd,
    count(*) FILTER (WHERE billed <> 'no' AND coalesce(cost_usd, cost_bound_usd) IS NULL) AS unknown_calls
FROM headrace.attempts
WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s)
GROUP BY 1, 2 ORDER BY high_usd DESC, calls DESC, 1, 2
"""

# Scalar fields of the answers, or the whole text as `answer`. Of what is longer than a label only that leaves here.
FIELDS = f"""
SELECT name, count(*) AS distinct_values, sum(rows)::bigint AS answers, bool_or(length(value) > %(longest)s) AS long
FROM (
    SELECT name, left(value, %(longest)s + 1) AS value, count(*) AS rows
    FROM headrace.results, LATERAL (
    {SCALARS}
    ) scalars
    WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s)
        AND status = 'succeeded' AND value IS NOT NULL
    GROUP BY 1, 2
) said GROUP BY name ORDER BY name LIMIT %(fields)s
"""  # noqa: S608
LABELS = f"""
SELECT name, value, count(*) AS rows
FROM headrace.results, LATERAL (
    {SCALARS}
) scalars
WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s)
    AND status = 'succeeded' AND value IS NOT NULL AND name = ANY(%(names)s)
GROUP BY 1, 2 ORDER BY name, rows DESC, value
"""  # noqa: S608

SLOWEST = """
SELECT id, latency_ms, outcome FROM headrace.attempts
WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s) AND latency_ms IS NOT NULL
ORDER BY latency_ms DESC, id LIMIT %(shown)s
"""
RETRIED = """
SELECT id, count(*) AS calls FROM headrace.attempts
WHERE job = %(job)s AND (%(run)s::text IS NULL OR coalesce(run, '') = %(run)s)
GROUP BY id HAVING count(*) > 1 ORDER BY calls DESC, id LIMIT %(shown)s
"""
