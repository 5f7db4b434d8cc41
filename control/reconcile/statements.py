"""Every statement of the reconciliation. What is missing is gathered in the session, so that memory stays bounded."""

from __future__ import annotations

MISSING = """
CREATE TEMP TABLE missing (job text, id text, topic text NOT NULL, partition integer NOT NULL,
    log_offset bigint NOT NULL, PRIMARY KEY (job, id))
"""

# A row answers for a message if it is of the same request, or of a later version. A claim that has lapsed answers for
# nothing: behind the committed offset nobody will take it over. Of several versions the last one counts; they lie in
# one partition, and come in its order.
LOOK = """
INSERT INTO missing AS m (job, id, topic, partition, log_offset)
SELECT DISTINCT ON (t.job, t.id) t.job, t.id, t.topic, t.partition, t.log_offset
FROM unnest(%(job)s::text[], %(id)s::text[], %(fingerprint)s::text[], %(log)s::text[], %(topic)s::text[],
    %(partition)s::bigint[], %(log_offset)s::bigint[], %(published_at)s::timestamptz[])
    AS t(job, id, fingerprint, log, topic, partition, log_offset, published_at)
LEFT JOIN headrace.results r ON r.job = t.job AND r.id = t.id
WHERE NOT coalesce((r.status <> 'claimed' OR r.claimed_until > now()) AND (r.fingerprint = t.fingerprint
    OR CASE WHEN r.log = t.log THEN r.log_offset >= t.log_offset
        ELSE coalesce(r.published_at >= t.published_at, true) END), false)
ORDER BY t.job, t.id, t.log_offset DESC
ON CONFLICT (job, id) DO UPDATE SET topic = excluded.topic, partition = excluded.partition,
    log_offset = excluded.log_offset
"""

# Another message of the row waits unread: it will be answered, and the older one must not come after it.
WAITING = """
DELETE FROM missing m USING unnest(%(job)s::text[], %(id)s::text[]) AS t(job, id) WHERE m.job = t.job AND m.id = t.id
"""
COUNT = "SELECT count(*) AS missing FROM missing"
IDS = "SELECT job, id FROM missing ORDER BY job, id LIMIT %(most)s"
PLACES = """
SELECT topic, partition, log_offset FROM missing
WHERE (topic, partition, log_offset) > (%(topic)s, %(partition)s, %(log_offset)s)
ORDER BY topic, partition, log_offset LIMIT %(most)s
"""
