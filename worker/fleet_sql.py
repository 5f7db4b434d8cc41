"""Every statement about what the workers of a fleet share. Clocks are the database's; spans travel in seconds."""

from __future__ import annotations

# How many workers live, this one included. One that has said nothing for a while is gone.
BEAT = """
WITH mine AS (
    INSERT INTO headrace.workers AS w (worker, in_flight, open) VALUES (%(worker)s, %(in_flight)s, %(open)s)
    ON CONFLICT (worker) DO UPDATE SET seen_at = now(), in_flight = excluded.in_flight, open = excluded.open
)
SELECT 1 + count(*) FROM headrace.workers
WHERE worker <> %(worker)s AND seen_at > now() - make_interval(secs => %(gone_after)s)
"""

# Rows of workers that died without a word are kept for a day, for those who look for them.
GONE = """
DELETE FROM headrace.workers WHERE worker = %(worker)s OR seen_at < now() - interval '1 day'
"""

# Units of a limit are leased as a stretch of time, one after another for the whole fleet, so that no two workers hold
# the same. The second number says how long until the stretch begins; without a row too much is leased out already.
LEASE = """
INSERT INTO headrace.quotas AS q (endpoint, unit, next_at)
VALUES (%(endpoint)s, %(unit)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (endpoint, unit) DO UPDATE
    SET next_at = greatest(q.next_at, clock_timestamp()) + make_interval(secs => %(seconds)s)
    WHERE q.next_at < clock_timestamp() + make_interval(secs => %(ahead)s)
RETURNING extract(epoch FROM q.next_at - clock_timestamp())::float8 - %(seconds)s
"""

LEASED_UNTIL = """
SELECT extract(epoch FROM next_at - clock_timestamp())::float8 FROM headrace.quotas
WHERE endpoint = %(endpoint)s AND unit = %(unit)s
"""
