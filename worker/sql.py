"""Every statement the worker sends to Postgres. Batches travel in binary, one round trip each.

A name in braces stands for a batch as `worker.relation` writes it; here are the columns of each, the key that always
differs first.
"""

from __future__ import annotations

INCOMING = {
    "id": "text",
    "job": "text",
    "run": "text",
    "fingerprint": "text",
    "log": "text",
    "log_offset": "bigint",
    "published_at": "timestamptz",
    "model": "text",
    "prompt_length": "bigint",
}
ENDED = {
    "id": "text",
    "job": "text",
    "fence": "bigint",
    "status": "text",
    "reason": "text",
    "result": "text",
    "result_json": "text",
    "sanitised": "boolean",
    "finish_reason": "text",
    "prompt_tokens": "bigint",
    "completion_tokens": "bigint",
    "latency_ms": "bigint",
    "result_length": "bigint",
    "retry_count": "bigint",
    "error_msg": "text",
    "model": "text",
    "model_answered": "text",
    "endpoint": "text",
    "cost_usd": "numeric",
}
CALLS = {
    "id": "text",
    "job": "text",
    "attempt": "bigint",
    "claimed_at": "timestamptz",
    "run": "text",
    "outcome": "text",
    "http_status": "bigint",
    "billed": "text",
    "prompt_tokens": "bigint",
    "completion_tokens": "bigint",
    "latency_ms": "bigint",
    "cost_usd": "numeric",
    "model": "text",
    "endpoint": "text",
    "started_at": "timestamptz",
    "finished_at": "timestamptz",
    "detail": "text",
    "cost_bound_usd": "numeric",
    "tokens_bound": "bigint",
}

# One statement decides what a poll brought. Rows are locked in key order, so that two workers cannot deadlock; a row
# that another worker inserts at the same instant keeps its fence and is told as `live`. Whether a message is an older
# or a newer version of its row is the offset's word within one log, the publishing time's between two.
CLAIM = """
WITH incoming AS (
    {incoming}
), held AS MATERIALIZED (
    SELECT r.* FROM headrace.results r JOIN incoming i ON r.job = i.job AND r.id = i.id
    ORDER BY r.job, r.id FOR UPDATE OF r
), compared AS (
    SELECT i.*, h.fence, h.starts, h.status AS held_status, h.worker AS owner,
        coalesce(h.claimed_at, h.claimed_until, now()) AS held_claim,
        h.run AS held_run, h.model AS held_model, h.id IS NULL AS is_new,
        h.fingerprint IS NOT DISTINCT FROM i.fingerprint AS same,
        h.claimed_until > now() AS live,
        CASE WHEN h.log = i.log THEN i.log_offset < h.log_offset ELSE i.published_at < h.published_at END AS older,
        CASE WHEN h.log = i.log THEN i.log_offset > h.log_offset ELSE i.published_at > h.published_at END AS later
    FROM incoming i LEFT JOIN held h ON h.job = i.job AND h.id = i.id
), judged AS (
    SELECT c.*, CASE
        WHEN is_new THEN 'new'
        WHEN NOT same AND older IS TRUE THEN 'superseded'
        WHEN NOT same THEN 'newer'
        WHEN held_status = 'succeeded' THEN 'done'
        WHEN held_status = 'failed' THEN
            CASE WHEN later IS TRUE AND (run IS NULL OR run IS DISTINCT FROM held_run) THEN 'again' ELSE 'done' END
        WHEN live IS TRUE AND owner = %(worker)s THEN 'held'
        WHEN live IS TRUE THEN 'live'
        WHEN owner IS NULL THEN 'released'
        WHEN starts >= %(max_starts)s THEN 'crashed'
        ELSE 'lost' END AS verdict
    FROM compared c
), claimed AS (
    INSERT INTO headrace.results AS r (job, id, run, fingerprint, status, reason, worker, claimed_until, claimed_at,
        published_at, completed_at, log, log_offset, prompt_length, model, fence, starts, error_msg)
    SELECT job, id, run, fingerprint,
        CASE verdict WHEN 'crashed' THEN 'failed' ELSE 'claimed' END,
        CASE verdict WHEN 'crashed' THEN 'crashed' END,
        %(worker)s, now() + make_interval(secs => %(lease)s), now(), published_at,
        CASE verdict WHEN 'crashed' THEN now() END,
        log, log_offset, prompt_length, model, coalesce(fence, 0) + 1,
        CASE WHEN verdict IN ('lost', 'released', 'crashed') THEN starts ELSE 0 END
            + CASE verdict WHEN 'crashed' THEN 0 ELSE 1 END,
        CASE verdict WHEN 'crashed' THEN 'its owner died during each of ' || starts || ' starts' END
    FROM judged WHERE verdict NOT IN ('done', 'superseded', 'live', 'held') ORDER BY job, id
    ON CONFLICT (job, id) DO UPDATE SET
        run = excluded.run, fingerprint = excluded.fingerprint, status = excluded.status, reason = excluded.reason,
        worker = excluded.worker, claimed_until = excluded.claimed_until, claimed_at = excluded.claimed_at,
        published_at = excluded.published_at, completed_at = excluded.completed_at, log = excluded.log,
        log_offset = excluded.log_offset, prompt_length = excluded.prompt_length, model = excluded.model,
        fence = excluded.fence, starts = excluded.starts, error_msg = excluded.error_msg,
        result = NULL, result_json = NULL, sanitised = false, finish_reason = NULL, prompt_tokens = NULL,
        completion_tokens = NULL, latency_ms = NULL, result_length = NULL, retry_count = 0, model_answered = NULL,
        endpoint = NULL, cost_usd = NULL, version_xid = pg_current_xact_id()
    WHERE r.fence = excluded.fence - 1
    RETURNING r.job, r.id, r.fence, r.claimed_at
)
SELECT a.nth, a.verdict, a.fence, a.claimed_at, a.owner,
    CASE WHEN a.owner IS NOT NULL THEN a.held_claim END, CASE WHEN a.owner IS NOT NULL THEN a.held_run END,
    CASE WHEN a.owner IS NOT NULL THEN a.held_model END
FROM (
    SELECT j.nth, j.held_claim, j.held_run, j.held_model,
        CASE WHEN j.verdict IN ('done', 'superseded', 'held') OR c.id IS NOT NULL THEN j.verdict ELSE 'live' END
            AS verdict,
        coalesce(c.fence, j.fence, 0) AS fence, coalesce(c.claimed_at, j.held_claim) AS claimed_at,
        CASE WHEN j.held_status = 'claimed' AND c.id IS NOT NULL THEN j.owner END AS owner
    FROM judged j LEFT JOIN claimed c ON c.job = j.job AND c.id = j.id
) a
"""

# In the transaction of the claim: a call that a former owner may have made and nobody has seen the end of. It has the
# number that the owner would have given it, so that the owner's own line, should it come late, takes its place.
LOST = """
INSERT INTO headrace.attempts (job, id, attempt, claimed_at, run, outcome, billed, model, worker,
    started_at, finished_at, cost_bound_usd, tokens_bound)
SELECT t.job, t.id, 1 + coalesce((SELECT max(a.attempt) FROM headrace.attempts a
        WHERE a.job = t.job AND a.id = t.id AND a.claimed_at <= t.held_claim), 0),
    t.held_claim, t.held_run, 'lost', 'maybe', t.held_model, t.owner, t.held_claim, now(), t.usd, t.tokens
FROM unnest(%(job)b::text[], %(id)b::text[], %(owner)b::text[], %(held_claim)b::timestamptz[], %(held_run)b::text[],
    %(held_model)b::text[], %(usd)b::numeric[], %(tokens)b::bigint[])
    AS t(job, id, owner, held_claim, held_run, held_model, usd, tokens)
ON CONFLICT DO NOTHING
"""

# The highest number that a call of a row has had, so that numbers go on where a former claim ended.
NUMBERS = """
SELECT a.job, a.id, max(a.attempt)
FROM unnest(%(job)b::text[], %(id)b::text[]) AS t(job, id)
JOIN headrace.attempts a ON a.job = t.job AND a.id = t.id
GROUP BY a.job, a.id
"""

# Ends and ledger lines in one transaction. A row is written only by the holder of its newest claim. A ledger line
# replaces the `lost` line that another owner may have written for the same call. Rows are locked in key order first,
# here and below, as a claim locks them: an UPDATE alone locks them in whatever order its plan joins.
FINISH = """
WITH ended AS (
    {ended}
), locked AS MATERIALIZED (
    SELECT r.job, r.id, e.nth FROM ended e JOIN headrace.results r ON r.job = e.job AND r.id = e.id
    WHERE r.fence = e.fence AND r.status = 'claimed' ORDER BY r.job, r.id FOR NO KEY UPDATE OF r
), stored AS (
    UPDATE headrace.results r SET
        status = e.status, reason = e.reason, result = e.result, result_json = e.result_json::jsonb,
        sanitised = e.sanitised, finish_reason = e.finish_reason, prompt_tokens = e.prompt_tokens,
        completion_tokens = e.completion_tokens, latency_ms = e.latency_ms, result_length = e.result_length,
        retry_count = e.retry_count, error_msg = e.error_msg, model = e.model, model_answered = e.model_answered,
        endpoint = e.endpoint, cost_usd = e.cost_usd, worker = %(worker)s, claimed_until = NULL,
        completed_at = clock_timestamp(), version_xid = pg_current_xact_id()
    FROM locked l JOIN ended e ON e.nth = l.nth WHERE r.job = l.job AND r.id = l.id
    RETURNING e.nth
), calls AS (
    INSERT INTO headrace.attempts AS a (job, id, attempt, claimed_at, run, outcome, http_status, billed,
        prompt_tokens, completion_tokens, latency_ms, cost_usd, model, endpoint, worker, started_at, finished_at,
        detail, cost_bound_usd, tokens_bound)
    SELECT c.job, c.id, c.attempt, c.claimed_at, c.run, c.outcome, c.http_status, c.billed, c.prompt_tokens,
        c.completion_tokens, c.latency_ms, c.cost_usd, c.model, c.endpoint, %(worker)s, c.started_at, c.finished_at,
        c.detail, c.cost_bound_usd, c.tokens_bound
    FROM ({calls}) AS c
    ON CONFLICT (job, id, attempt, claimed_at) DO UPDATE SET
        outcome = excluded.outcome, http_status = excluded.http_status, billed = excluded.billed,
        prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens,
        latency_ms = excluded.latency_ms, cost_usd = excluded.cost_usd, model = excluded.model,
        endpoint = excluded.endpoint, worker = excluded.worker, started_at = excluded.started_at,
        finished_at = excluded.finished_at, detail = excluded.detail, cost_bound_usd = excluded.cost_bound_usd,
        tokens_bound = excluded.tokens_bound
    WHERE a.outcome = 'lost'
)
SELECT nth FROM stored
"""

# Rows that FINISH did not write: those already written under this fence had an ambiguous commit and count as stored.
ALREADY = """
SELECT e.nth
FROM unnest(%(job)b::text[], %(id)b::text[], %(fence)b::bigint[]) WITH ORDINALITY AS e(job, id, fence, nth)
JOIN headrace.results r ON r.job = e.job AND r.id = e.id AND r.fence = e.fence AND r.status <> 'claimed'
"""

RENEW = """
WITH held AS MATERIALIZED (
    SELECT r.job, r.id FROM headrace.results r
    JOIN unnest(%(job)b::text[], %(id)b::text[], %(fence)b::bigint[]) AS h(job, id, fence)
        ON r.job = h.job AND r.id = h.id
    WHERE r.fence = h.fence AND r.status = 'claimed' ORDER BY r.job, r.id FOR NO KEY UPDATE OF r
)
UPDATE headrace.results r SET claimed_until = now() + make_interval(secs => %(lease)s)
FROM held h WHERE r.job = h.job AND r.id = h.id
RETURNING r.job, r.id
"""

# The start is taken back and no owner is named, so the next one counts no death and records no lost call.
RELEASE = """
WITH held AS MATERIALIZED (
    SELECT r.job, r.id FROM headrace.results r
    JOIN unnest(%(job)b::text[], %(id)b::text[], %(fence)b::bigint[]) AS h(job, id, fence)
        ON r.job = h.job AND r.id = h.id
    WHERE r.fence = h.fence AND r.status = 'claimed' ORDER BY r.job, r.id FOR NO KEY UPDATE OF r
)
UPDATE headrace.results r SET claimed_until = now(), worker = NULL, starts = greatest(r.starts - 1, 0)
FROM held h WHERE r.job = h.job AND r.id = h.id
"""

REVISION = "SELECT version_num FROM headrace.alembic_version"
