"""What the database says of the fleet and of a canary: workers that live, ends, bills, endpoints that refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic import SecretStr

from producer.database import connected
from schemas.bills import EARLIER, Earlier
from schemas.statuses import Status

# A worker says every two seconds that it lives.
SEEN_SECONDS = 15

_REVISION = "SELECT version_num FROM headrace.alembic_version"
_WORKERS = "SELECT count(*) FROM headrace.workers WHERE seen_at > now() - make_interval(secs => %(seen)s)"
# A failure of an earlier run is no end of this one; an answer is, whoever has asked for it.
_ENDS = """
SELECT known.status, known.reason, count(*)
FROM unnest(%(ids)s::text[], %(fingerprints)s::text[]) AS asked (id, fingerprint)
JOIN headrace.results AS known ON known.job = %(job)s AND known.id = asked.id
WHERE known.fingerprint = asked.fingerprint AND known.status <> 'claimed'
    AND (known.run = %(run)s OR known.status = %(succeeded)s)
GROUP BY 1, 2
"""
# Open circuits that this run's own calls have met. One that was open before
# counts only once a call of this run was refused too: it may be mended, and nobody finds out without a call.
_REFUSING = """
WITH calls AS (
    SELECT endpoint, count(*) AS refused FROM headrace.attempts
    WHERE job = %(job)s AND id = ANY (%(ids)s) AND run = %(run)s AND outcome = 'run_fault' GROUP BY endpoint
)
SELECT calls.endpoint, c.detail, calls.refused FROM headrace.circuits AS c
JOIN calls ON calls.endpoint = split_part(c.endpoint, ' ', 1) WHERE c.opened_at IS NOT NULL
ORDER BY 1, 2
"""
# Per row all its calls in the run together, each by the most that it may have cost; null where nobody knows.
_BILLS = """
SELECT id,
    CASE WHEN bool_and(billed = 'no' OR coalesce(cost_usd, cost_bound_usd) IS NOT NULL)
        THEN sum(coalesce(cost_usd, cost_bound_usd, 0)) END,
    CASE WHEN bool_and(billed = 'no' OR coalesce(prompt_tokens + completion_tokens, tokens_bound) IS NOT NULL)
        THEN sum(coalesce(prompt_tokens + completion_tokens, tokens_bound, 0))::bigint END
FROM headrace.attempts WHERE job = %(job)s AND id = ANY (%(ids)s) AND run = %(run)s GROUP BY id
"""


class Bill(NamedTuple):
    """What all calls of one row cost and used; None where nobody knows."""

    usd: Decimal | None
    tokens: int | None


NOTHING = Bill(Decimal(0), 0)


@dataclass(frozen=True, slots=True)
class Watch:
    """Looks at one run; each look connects anew, so that a database that restarts ends nothing."""

    url: SecretStr
    job: str = ""
    run: str = ""

    def revision(self) -> str | None:
        """Tell the newest migration that was carried out."""
        rows = self._rows(_REVISION)
        return str(rows[0][0]) if rows else None

    def workers(self) -> int:
        """Count the workers that live."""
        return int(self._rows(_WORKERS, seen=SEEN_SECONDS)[0][0])

    def ends(self, ids: Sequence[str], fingerprints: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Count of these rows those that succeeded, and those that failed by reason."""
        asked = {"ids": list(ids), "fingerprints": list(fingerprints), "succeeded": str(Status.SUCCEEDED)}
        rows = self._rows(_ENDS, **asked)
        failed = {str(reason): count for status, reason, count in rows if status != Status.SUCCEEDED}
        return sum(count for status, _, count in rows if status == Status.SUCCEEDED), failed

    def refusing(self, ids: Sequence[str]) -> list[str]:
        """Name the endpoints that refuse the whole run, each with what they answered."""
        return [
            f"{endpoint} refuses every call ({detail or 'no detail'}; {refused} of this run)"
            for endpoint, detail, refused in self._rows(_REFUSING, ids=list(ids))
        ]

    def bills(self, ids: Sequence[str]) -> dict[str, Bill]:
        """Add up the calls of each of these rows; rows that the run made no call for are missing."""
        return {id_: Bill(usd, tokens) for id_, usd, tokens in self._rows(_BILLS, ids=list(ids))}

    def earlier(self, most: int) -> list[Earlier]:
        """Look at some rows of the job that have their end, a fair sample of those that were asked."""
        return [Earlier(*row) for row in self._rows(EARLIER, most=most)]

    def _rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        with connected(self.url) as connection:
            return connection.execute(statement.encode(), {"job": self.job, "run": self.run, **values}).fetchall()
