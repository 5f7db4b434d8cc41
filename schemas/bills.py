"""What earlier rows of a job took: the question to the database, and what one row costs at a price."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from schemas.models import Price

# Rows that have their end, in the order of a hash of the request, so whatever comes first is a fair sample; of each
# all calls in the run that its result is of. A call that may have been billed counts by the most that it may have
# used; what nobody knows makes its row unknown. The columns are those of `Earlier`.
EARLIER = """
WITH sample AS (
    SELECT id, run FROM headrace.results WHERE job = %(job)s AND status <> 'claimed' AND fingerprint IS NOT NULL
    ORDER BY fingerprint LIMIT %(most)s
), calls AS (
    SELECT a.id, a.run, a.model, coalesce(a.cost_usd, a.cost_bound_usd, CASE a.billed WHEN 'no' THEN 0 END) AS usd,
        coalesce(a.prompt_tokens + a.completion_tokens, a.tokens_bound, CASE a.billed WHEN 'no' THEN 0 END) AS tokens,
        CASE WHEN a.completion_tokens IS NOT NULL THEN a.prompt_tokens END AS prompt_tokens,
        CASE WHEN a.prompt_tokens IS NOT NULL THEN a.completion_tokens END AS completion_tokens
    FROM sample s JOIN headrace.attempts a ON a.job = %(job)s AND a.id = s.id AND a.run IS NOT DISTINCT FROM s.run
)
SELECT max(run), max(model), CASE WHEN count(usd) = count(*) THEN sum(usd) END,
    CASE WHEN count(tokens) = count(*) THEN sum(tokens)::bigint END,
    coalesce(sum(prompt_tokens), 0)::bigint, coalesce(sum(completion_tokens), 0)::bigint
FROM calls GROUP BY id ORDER BY id
"""


class Earlier(NamedTuple):
    """All calls of one row: what they cost and used together, None where nobody knows.

    `tokens` that are neither of the prompt nor of the completion are of calls that told nothing: their bound.
    """

    run: str | None
    model: str | None
    usd: Decimal | None
    tokens: int | None
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def cost(self, price: Price | None) -> float | None:
        """Give the row's cost in USD at this price, or as it was at its time; None where nobody knows."""
        if price is None or self.tokens is None:
            return None if self.usd is None else float(self.usd)
        untold = self.tokens - self.prompt_tokens - self.completion_tokens
        dearer = max(price.input_per_million, price.output_per_million)
        return float(price.cost(self.prompt_tokens, self.completion_tokens) + dearer * untold / 1_000_000)
