"""Every statement of the state of the runs: one a question, all read in one snapshot, on the database's clock."""

from __future__ import annotations

# Runs that somebody has recorded; shown are the newest so many of each job.
RUNS = """
SELECT job, run, state, paused_for, topic, read, rejected, deduplicated, skipped, published, budget_usd,
    budget_tokens, created_at, finished_at,
    row_number() OVER (PARTITION BY job ORDER BY created_at DESC, run DESC) <= %(runs)s AS shown
FROM headrace.jobs WHERE %(job)s::text IS NULL OR job = %(job)s ORDER BY job, created_at, run
"""

# One pass over the rows gives all that is counted of them. `seconds_ago` is known for what has ended within the
# window, in whole seconds: a few hundred groups, however many rows.
COUNTS = """
SELECT job, run, status, reason, live, seconds_ago, count(*) AS rows FROM (
    SELECT job, coalesce(run, '') AS run, status, reason,
        status = 'claimed' AND coalesce(claimed_until > now(), false) AS live,
        CASE WHEN status <> 'claimed' AND completed_at > now() - make_interval(secs => %(window)s)
            THEN floor(greatest(0, extract(epoch FROM now() - completed_at)))::int END AS seconds_ago
    FROM headrace.results WHERE %(job)s::text IS NULL OR job = %(job)s
) counted
GROUP BY job, run, status, reason, live, seconds_ago
"""

COSTS = """
SELECT job, coalesce(run, '') AS run, sum(calls)::bigint AS calls, sum(maybe_billed)::bigint AS maybe_billed,
    sum(unknown_calls)::bigint AS unknown_calls, sum(low_usd) AS low_usd, sum(high_usd) AS high_usd,
    sum(low_tokens)::bigint AS low_tokens, sum(high_tokens)::bigint AS high_tokens
FROM headrace.costs WHERE %(job)s::text IS NULL OR job = %(job)s GROUP BY 1, 2
"""

WORKERS = """
SELECT worker, in_flight, open, extract(epoch FROM now() - seen_at)::float8 AS seen_seconds_ago
FROM headrace.workers WHERE seen_at > now() - make_interval(secs => %(gone_after)s) ORDER BY worker
"""

CIRCUITS = """
SELECT endpoint, reason, detail, opened_at FROM headrace.circuits WHERE opened_at IS NOT NULL ORDER BY endpoint
"""

# How far ahead of now the units of each limit are leased out: above nothing, the limit holds calls back.
LIMITS = """
SELECT endpoint, unit, greatest(0, extract(epoch FROM next_at - now()))::float8 AS leased_ahead_seconds
FROM headrace.quotas ORDER BY endpoint, unit
"""

NOW = "SELECT now()"
