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

# `began`: when the newest reading of the answers began, on the database's clock.
BACKFILLS = """
SELECT b.job, extract(epoch FROM now() - b.finished)::float8 AS seconds, (
    SELECT count(*) FROM headrace.results r
    WHERE r.job = b.job AND r.status <> 'claimed' AND r.version_xid >= b.cursor AND r.completed_at > b.began
) AS unjoined
FROM (
    SELECT job, max(finished_at) AS finished, max(started_at) AS began,
        (array_agg(cursor ORDER BY started_at DESC))[1] AS cursor
    FROM headrace.backfills GROUP BY job
) b
"""
