"""Budgets of runs: who may spend how much more, what a call of unknown cost may have cost at most, totals."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

# For calls that may have been billed, and for answers that do not say what they used.
BOUNDS = """
ALTER TABLE headrace.attempts ADD COLUMN cost_bound_usd numeric, ADD COLUMN tokens_bound bigint
"""

# One after another, under the lock of the run's row: so the grants of all workers never exceed the budget. Amounts
# are pairs, USD and tokens; what has no budget is 0 throughout. `keeps` is the grant that the worker holds itself to:
# where that is less than what stands here, the rest is given back; where it is more, somebody has taken it back
# meanwhile. It wants to have `wish` beside what its running calls hold, and is given no more than a part of what is
# left, but enough for `largest`, one call. With less than `smallest` it could do nothing, and is given nothing. A
# worker that is `stuck` has calls that wait and none that runs: when no other holds money either, the run is paused.
# One that has said nothing for 150 s holds none.
DRAW = """
CREATE FUNCTION headrace.draw_budget(its_job text, its_run text, its_worker text, workers integer, stuck boolean,
    keeps numeric[], spent numeric[], reserved numeric[], smallest numeric[], largest numeric[], wish numeric[])
RETURNS TABLE (word text, usd numeric, tokens numeric)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    budget numeric[];
    at_work boolean;
    others numeric[];
    free numeric;
    rest numeric;
    short boolean := false;
    draw numeric[] := '{0,0}';
BEGIN
    SELECT ARRAY[j.budget_usd, j.budget_tokens], j.state NOT IN ('paused', 'cancelled') INTO budget, at_work
    FROM headrace.jobs j WHERE j.job = its_job AND j.run = its_run FOR NO KEY UPDATE;
    IF coalesce(budget[1], budget[2]) IS NULL THEN
        RETURN;
    END IF;
    SELECT ARRAY[coalesce(sum(s.granted_usd) FILTER (WHERE s.worker <> its_worker), 0),
            coalesce(sum(s.granted_tokens) FILTER (WHERE s.worker <> its_worker), 0)],
        ARRAY[least(keeps[1], coalesce(sum(s.granted_usd) FILTER (WHERE s.worker = its_worker), 0)),
            least(keeps[2], coalesce(sum(s.granted_tokens) FILTER (WHERE s.worker = its_worker), 0))]
    INTO others, keeps FROM headrace.spending s WHERE s.job = its_job AND s.run = its_run;
    FOR d IN 1..2 LOOP
        CONTINUE WHEN budget[d] IS NULL;
        free := keeps[d] - spent[d] - reserved[d];
        rest := greatest(budget[d] - others[d] - keeps[d], 0);
        short := short OR free + rest < smallest[d];
        draw[d] := least(wish[d], greatest(largest[d], least((rest + free) / (2 * workers), budget[d] / 50))) - free;
        draw[d] := trunc(greatest(least(rest, draw[d]), 0), CASE d WHEN 1 THEN 12 ELSE 0 END);
    END LOOP;
    word := CASE WHEN NOT at_work THEN 'paused' WHEN short THEN 'later' ELSE 'granted' END;
    IF word <> 'granted' THEN
        draw := '{0,0}';
    END IF;
    usd := keeps[1] + draw[1];
    tokens := keeps[2] + draw[2];
    INSERT INTO headrace.spending AS s (job, run, worker, granted_usd, granted_tokens, spent_usd, spent_tokens,
        updated_at)
    VALUES (its_job, its_run, its_worker, usd, tokens, spent[1], spent[2], clock_timestamp())
    ON CONFLICT (job, run, worker) DO UPDATE SET granted_usd = excluded.granted_usd,
        granted_tokens = excluded.granted_tokens, spent_usd = excluded.spent_usd,
        spent_tokens = excluded.spent_tokens, updated_at = excluded.updated_at;
    IF word = 'later' AND stuck AND NOT EXISTS (
        SELECT FROM headrace.spending s WHERE s.job = its_job AND s.run = its_run AND s.worker <> its_worker
            AND (s.granted_usd > s.spent_usd OR s.granted_tokens > s.spent_tokens)
            AND s.updated_at > clock_timestamp() - interval '150 s'
    ) THEN
        PERFORM headrace.pause_for_budget(its_job, its_run);
        word := 'used_up';
    END IF;
    RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION headrace.draw_budget(text, text, text, integer, boolean, numeric[], numeric[], numeric[],
    numeric[], numeric[], numeric[]) FROM PUBLIC;
"""

# What a run has cost, from `low` to `high`: calls that may have been billed count only above. `unknown_calls` are
# those whose cost nobody can tell, for want of a price: with one of them there is no upper end.
COSTS = """
CREATE VIEW headrace.costs AS
SELECT job, run, count(*) AS calls, count(*) FILTER (WHERE billed = 'maybe') AS maybe_billed,
    coalesce(sum(cost_usd), 0) AS low_usd,
    coalesce(sum(coalesce(cost_usd, cost_bound_usd)), 0) AS high_usd,
    count(*) FILTER (WHERE billed <> 'no' AND coalesce(cost_usd, cost_bound_usd) IS NULL) AS unknown_calls,
    coalesce(sum(prompt_tokens + completion_tokens), 0)::bigint AS low_tokens,
    coalesce(sum(coalesce(prompt_tokens + completion_tokens, tokens_bound)), 0)::bigint AS high_tokens
FROM headrace.attempts GROUP BY job, run
"""

ROLES = """
DO $$
BEGIN
    IF to_regrole('headrace_worker') IS NOT NULL THEN
        GRANT UPDATE (cost_bound_usd, tokens_bound) ON headrace.attempts TO headrace_worker;
        GRANT SELECT ON headrace.costs TO headrace_worker;
        GRANT EXECUTE ON FUNCTION headrace.draw_budget(text, text, text, integer, boolean, numeric[], numeric[],
            numeric[], numeric[], numeric[], numeric[]) TO headrace_worker;
    END IF;
    IF to_regrole('headrace_reader') IS NOT NULL THEN
        GRANT SELECT ON headrace.costs TO headrace_reader;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Add the columns, the function and the view."""
    for script in (BOUNDS, DRAW, COSTS, ROLES):
        op.execute(script)


def downgrade() -> None:
    """Take them away."""
    op.execute("DROP VIEW headrace.costs")
    op.execute("DROP FUNCTION headrace.draw_budget")
    op.execute("ALTER TABLE headrace.attempts DROP COLUMN cost_bound_usd, DROP COLUMN tokens_bound")
