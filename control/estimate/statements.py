"""Every statement of the estimate, besides `schemas.bills.EARLIER`."""

from __future__ import annotations

# The newest run that has told its counts.
NEWEST = """
SELECT run, state, read, rejected, deduplicated, skipped, published, created_at FROM headrace.jobs
WHERE job = %(job)s AND read > 0 ORDER BY created_at DESC, run DESC LIMIT 1
"""

# Runs that went no further than their canary.
TRIALS = """
SELECT run FROM headrace.jobs WHERE job = %(job)s AND run = ANY (%(runs)s)
    AND (state = 'canary' OR state = 'cancelled' AND published BETWEEN 1 AND %(canary)s)
"""

# Rows of all jobs by how many seconds ago they ended: how fast the fleet is now.
ENDED = """
SELECT floor(extract(epoch FROM now() - completed_at))::int AS seconds_ago, count(*) AS rows FROM headrace.results
WHERE status <> 'claimed' AND completed_at BETWEEN now() - make_interval(secs => %(window)s) AND now() GROUP BY 1
"""

# How fast the newest run of the job was that ended any rows; its first and last twentieth are left out.
PACE = """
SELECT run, count(*) AS rows, extract(epoch FROM percentile_disc(0.95) WITHIN GROUP (ORDER BY completed_at)
    - percentile_disc(0.05) WITHIN GROUP (ORDER BY completed_at))::float8 AS seconds
FROM headrace.results WHERE job = %(job)s AND status <> 'claimed' AND completed_at IS NOT NULL AND run = (
    SELECT run FROM headrace.results WHERE job = %(job)s AND status <> 'claimed' AND completed_at IS NOT NULL
    ORDER BY completed_at DESC LIMIT 1)
GROUP BY run
"""
