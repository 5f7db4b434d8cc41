"""What the exporter asks beyond the statements of `control.status`: one statement a question."""

from __future__ import annotations

# One pass over the rows. `since` counts what has ended since the newest run of its job began, whatever run it names:
# a row that the newest run published again may have had its answer from the message of an earlier one.
ROWS = """
WITH newest AS (
    SELECT DISTINCT ON (job) job, created_at FROM headrace.jobs WHERE run <> ''
    ORDER BY job, created_at DESC, run DESC
)
SELECT r.job, r.status, r.reason, count(*) AS rows,
    count(*) FILTER (WHERE r.completed_at >= n.created_at) AS since,
    extract(epoch FROM now() - min(coalesce(r.published_at, r.claimed_at)))::float8 AS oldest_seconds
FROM headrace.results r LEFT JOIN newest n ON n.job = r.job
GROUP BY r.job, r.status, r.reason
"""

HAS_BACKFILLS = "SELECT to_regclass('headrace.backfills') IS NOT NULL AS found"

BACKFILLS = """
SELECT job, extract(epoch FROM now() - max(finished_at))::float8 AS seconds FROM headrace.backfills GROUP BY job
"""
