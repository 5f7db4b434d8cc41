"""Every statement that the dead-letter commands send to Postgres."""

from __future__ import annotations

_FAILED = """
SELECT job, id, reason, fingerprint, log, log_offset, prompt_length, completed_at
FROM headrace.results
WHERE status = 'failed'
    AND (%(job)s::text IS NULL OR job = %(job)s)
    AND (%(id)s::text IS NULL OR id = %(id)s)
    AND (%(reasons)s::text[] IS NULL OR reason = ANY (%(reasons)s))
    AND (%(since)s::timestamptz IS NULL OR completed_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR completed_at < %(until)s)
    AND (%(topics)s::text[] IS NULL OR regexp_replace(log, '/[0-9]+$', '') = ANY (%(topics)s))
"""
FAILED_BY_TIME = _FAILED + "ORDER BY completed_at, job, id"
# As they lie in the topics, so that each partition is read once from one end to the other.
FAILED_BY_PLACE = _FAILED + "ORDER BY log, log_offset"

ROW = "SELECT * FROM headrace.results WHERE job = %(job)s AND id = %(id)s"

CALLS = """
SELECT * FROM (
    SELECT * FROM headrace.attempts WHERE job = %(job)s AND id = %(id)s
    ORDER BY claimed_at DESC, attempt DESC LIMIT 1000
) AS last ORDER BY claimed_at, attempt
"""

STANDINGS = """
SELECT r.job, r.id, r.status, r.fingerprint, r.log, r.log_offset, r.published_at
FROM unnest(%(job)s::text[], %(id)s::text[]) AS t(job, id)
JOIN headrace.results r ON r.job = t.job AND r.id = t.id
"""

# A row that still stands where its replay found it has not been asked again yet.
_LINK = """
SELECT l.ancestor_log, l.ancestor_offset, l.run, l.ancestor, l.root, l.kind, l.reason, l.job, l.id, l.topic,
    l.partition, l.log, l.log_offset, l.replayed_at, l.acknowledged_at,
    CASE WHEN (r.log, r.log_offset) IS DISTINCT FROM (l.ancestor_log, l.ancestor_offset) THEN r.status END AS status
FROM headrace.replays l LEFT JOIN headrace.results r ON r.job = l.job AND r.id = l.id
"""
LINKS = (
    _LINK
    + """
JOIN unnest(%(log)s::text[], %(offset)s::bigint[]) AS t(log, log_offset)
    ON l.ancestor_log = t.log AND l.ancestor_offset = t.log_offset
ORDER BY l.replayed_at, l.run
"""
)
LINE = (
    _LINK
    + """
WHERE l.root = %(root)s OR (l.job = %(job)s AND l.id = %(id)s)
ORDER BY l.replayed_at, l.run LIMIT 1000
"""
)

BEGIN_COLUMNS = ("ancestor_log", "ancestor_offset", "run", "ancestor", "root", "kind", "reason", "job", "id", "topic")
BEGIN = """
INSERT INTO headrace.replays (ancestor_log, ancestor_offset, run, ancestor, root, kind, reason, job, id, topic)
SELECT * FROM unnest(%(ancestor_log)s::text[], %(ancestor_offset)s::bigint[], %(run)s::text[], %(ancestor)s::text[],
    %(root)s::text[], %(kind)s::text[], %(reason)s::text[], %(job)s::text[], %(id)s::text[], %(topic)s::text[])
ON CONFLICT DO NOTHING
"""

PLACE_COLUMNS = ("ancestor_log", "ancestor_offset", "run", "partition", "log", "log_offset")
ACKNOWLEDGE = """
UPDATE headrace.replays l
SET partition = t.partition, log = t.log, log_offset = t.log_offset, acknowledged_at = now()
FROM unnest(%(ancestor_log)s::text[], %(ancestor_offset)s::bigint[], %(run)s::text[], %(partition)s::bigint[],
    %(log)s::text[], %(log_offset)s::bigint[])
    AS t(ancestor_log, ancestor_offset, run, partition, log, log_offset)
WHERE l.ancestor_log = t.ancestor_log AND l.ancestor_offset = t.ancestor_offset AND l.run = t.run
"""
