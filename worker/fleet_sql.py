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

# Faults of the run are counted for the fleet: so many, each within a minute of the last, open the endpoint's circuit
# for all. The answer says whether it is open now.
FAULTS = """
INSERT INTO headrace.circuits AS c (endpoint, faults, faulted_at, opened_at, reason, detail, probe_at, probe_seconds)
VALUES (%(endpoint)s, %(faults)s, now(), CASE WHEN %(faults)s >= %(most)s THEN now() END, %(reason)s, %(detail)s,
    now() + make_interval(secs => %(first_probe)s), %(first_probe)s)
ON CONFLICT (endpoint) DO UPDATE SET
    faults = CASE WHEN c.faulted_at > now() - make_interval(secs => %(window)s) THEN c.faults ELSE 0 END
        + excluded.faults,
    faulted_at = now(), reason = excluded.reason, detail = excluded.detail,
    opened_at = coalesce(c.opened_at, CASE WHEN excluded.faults
        + CASE WHEN c.faulted_at > now() - make_interval(secs => %(window)s) THEN c.faults ELSE 0 END >= %(most)s
        THEN now() END),
    probe_at = CASE WHEN c.opened_at IS NULL THEN excluded.probe_at ELSE c.probe_at END,
    probe_seconds = CASE WHEN c.opened_at IS NULL THEN excluded.probe_seconds ELSE c.probe_seconds END
RETURNING opened_at IS NOT NULL
"""

CLOSE = """
UPDATE headrace.circuits SET opened_at = NULL, faults = 0 WHERE endpoint = %(endpoint)s AND opened_at IS NOT NULL
"""

# One probe of the fleet at a time: who moves its instant may make it. One that died with its worker is made by the
# next.
PROBE = """
UPDATE headrace.circuits SET probe_at = now() + make_interval(secs => probe_seconds),
    probe_seconds = least(2 * probe_seconds, %(slowest)s)
WHERE endpoint = %(endpoint)s AND opened_at IS NOT NULL AND probe_at <= now()
RETURNING true
"""

CIRCUITS = """
SELECT endpoint, reason, detail FROM headrace.circuits WHERE opened_at IS NOT NULL
"""

# Runs that operators have said something of. Where that was said of a whole job, its other runs are named too, so
# that a message of a run that nobody has recorded can be told from them. Cancelled runs are remembered for longer
# than any log is kept.
ORDERED_RUNS = """
WITH whole AS (
    SELECT job FROM headrace.jobs
    WHERE run = '' AND (state = 'paused' OR finished_at > now() - make_interval(days => %(days)s))
)
SELECT job, run, state, CASE WHEN state = 'cancelled' OR run = '' THEN finished_at END FROM headrace.jobs
WHERE state = 'paused' OR (state = 'cancelled' AND finished_at > now() - make_interval(days => %(days)s))
    OR job IN (SELECT job FROM whole)
"""

# A topic is to wait when all its open runs are, those that somebody has recorded if there are any; it weighs what its
# newest run that goes on does, or that is done: somebody may publish rows of it again.
OPEN_TOPICS = """
SELECT topic, coalesce(bool_and(state = 'paused') FILTER (WHERE run <> '' AND state <> 'done'),
        bool_and(state = 'paused') FILTER (WHERE state <> 'done'), false),
    coalesce((array_agg(priority ORDER BY run = '', state = 'done', created_at DESC)
        FILTER (WHERE state <> 'paused'))[1], 0)
FROM headrace.jobs WHERE state <> 'cancelled' AND topic IS NOT NULL GROUP BY topic
"""

# Runs that may be done, and until when their messages were published: their producer has told its counts, or a later
# one of the job has, so that this one's was killed. The oldest first.
UNENDED_RUNS = """
SELECT * FROM (
    SELECT j.job, j.run, j.topic, CASE WHEN j.read > 0 OR j.published > 0 THEN j.updated_at ELSE (
            SELECT greatest(j.updated_at, max(l.updated_at)) FROM headrace.jobs l
            WHERE l.job = j.job AND l.created_at > j.created_at AND (l.read > 0 OR l.published > 0)
            HAVING count(*) > 0
        ) END AS until
    FROM headrace.jobs j WHERE j.state = 'running' AND j.topic IS NOT NULL AND j.run <> '' ORDER BY j.created_at
) told WHERE until < now() - make_interval(secs => %(settled)s) LIMIT %(most)s
"""

END_RUN = "SELECT headrace.end_run(%(job)s, %(run)s, %(until)s)"

# Which of these runs have a budget, and of what. A message of a run that nobody has recorded has that of the run
# called "".
BUDGETS = """
SELECT asked.job, asked.run, j.run, j.budget_usd IS NOT NULL, j.budget_tokens IS NOT NULL
FROM unnest(%(job)b::text[], %(run)b::text[]) AS asked(job, run)
JOIN LATERAL (
    SELECT * FROM headrace.jobs j WHERE j.job = asked.job AND j.run IN (asked.run, '') ORDER BY j.run DESC LIMIT 1
) j ON j.budget_usd IS NOT NULL OR j.budget_tokens IS NOT NULL
"""

# No row where the run has no budget any more.
DRAW = """
SELECT word, usd, tokens FROM headrace.draw_budget(%(job)s, %(run)s, %(worker)s, %(workers)s, %(stuck)s,
    %(keeps)b::numeric[], %(spent)b::numeric[], %(reserved)b::numeric[], %(smallest)b::numeric[],
    %(largest)b::numeric[], %(wish)b::numeric[])
"""

PAUSE_FOR_BUDGET = "SELECT headrace.pause_for_budget(%(job)s, %(run)s)"

# What a worker that died was granted, down to what its calls may have cost, can be granted again: as soon as others
# have taken over all its claims, and with them put its last calls on record. Where the cost of one cannot be told,
# nothing is taken back. Messages of unrecorded runs cannot be told apart in the ledger, so their rest stays
# stranded. One worker looks at a time.
RECLAIM = """
WITH turn AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended('headrace.reclaim ' || %(job)s || ' ' || %(run)s, 0)) AS mine
), silent AS MATERIALIZED (
    SELECT s.worker FROM headrace.spending s
    WHERE s.job = %(job)s AND s.run = %(run)s AND s.run <> '' AND (SELECT mine FROM turn)
        AND s.updated_at < now() - make_interval(secs => %(silent)s)
        AND (s.granted_usd > s.spent_usd OR s.granted_tokens > s.spent_tokens)
        AND NOT EXISTS (
            SELECT FROM headrace.results r WHERE r.job = s.job AND r.worker = s.worker AND r.status = 'claimed')
), calls AS (
    SELECT a.worker, CASE WHEN bool_and(coalesce(a.cost_usd, a.cost_bound_usd) IS NOT NULL)
            THEN sum(coalesce(a.cost_usd, a.cost_bound_usd)) END AS usd,
        CASE WHEN bool_and(coalesce(a.prompt_tokens + a.completion_tokens, a.tokens_bound) IS NOT NULL)
            THEN sum(coalesce(a.prompt_tokens + a.completion_tokens, a.tokens_bound)) END AS tokens
    FROM headrace.attempts a JOIN silent USING (worker)
    WHERE a.job = %(job)s AND a.run = %(run)s AND a.billed <> 'no'
        AND a.claimed_at >= (SELECT created_at FROM headrace.jobs WHERE job = %(job)s AND run = %(run)s)
    GROUP BY a.worker
), known AS (
    SELECT w.worker, CASE WHEN c.worker IS NULL THEN 0 ELSE c.usd END AS usd,
        CASE WHEN c.worker IS NULL THEN 0 ELSE c.tokens END AS tokens
    FROM silent w LEFT JOIN calls c USING (worker)
)
UPDATE headrace.spending s SET
    granted_usd = least(s.granted_usd, greatest(s.spent_usd, coalesce(k.usd, s.granted_usd))),
    granted_tokens = least(s.granted_tokens, greatest(s.spent_tokens, coalesce(k.tokens, s.granted_tokens))),
    spent_usd = greatest(s.spent_usd, least(s.granted_usd, coalesce(k.usd, s.granted_usd))),
    spent_tokens = greatest(s.spent_tokens, least(s.granted_tokens, coalesce(k.tokens, s.granted_tokens)))
FROM known k
WHERE s.job = %(job)s AND s.run = %(run)s AND s.worker = k.worker
    AND s.updated_at < now() - make_interval(secs => %(silent)s)
RETURNING s.worker, s.granted_usd, s.granted_tokens
"""

# What became of rows, of those requests; one that somebody else asks again by now is told as the table has it.
OUTCOMES = """
SELECT a.nth, CASE r.status WHEN 'claimed' THEN 'open' ELSE r.status END, r.reason, r.prompt_tokens,
    r.completion_tokens, r.latency_ms, r.retry_count
FROM unnest(%(id)b::text[], %(fingerprint)b::text[]) WITH ORDINALITY AS a(id, fingerprint, nth)
JOIN headrace.results r ON r.job = %(job)s AND r.id = a.id AND r.fingerprint = a.fingerprint
"""

# A task of a run inside Spark that can do no more tells the others.
STOP_RUN = """
UPDATE headrace.jobs SET state = 'paused', paused_for = 'operator', updated_at = now()
WHERE job = %(job)s AND run = %(run)s AND state = 'running'
"""
