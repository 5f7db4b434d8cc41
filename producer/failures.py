"""What the database knows of rows that may ask a second model; see `cascade` for the rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import RecordBatch
from pydantic import SecretStr

from producer.columns import FINGERPRINT, ID, REASONS, SECOND
from producer.database import connected

# Each look goes into an index, by request or by id.
_GONE_ON = """
SELECT asked.id, asked.first
FROM unnest(%(ids)s::text[], %(firsts)s::text[], %(seconds)s::text[], %(reasons)s::text[])
    AS asked (id, first, second, reasons)
WHERE NOT EXISTS (SELECT FROM headrace.results AS known
        WHERE known.job = %(job)s AND known.fingerprint = asked.first AND known.status = 'succeeded'
            AND (%(by_request)s OR known.id = asked.id) AND known.run IS DISTINCT FROM %(but_of)s)
    AND NOT EXISTS (SELECT FROM headrace.former_results AS former
        WHERE former.job = %(job)s AND former.fingerprint = asked.first
            AND (%(by_request)s OR former.id = asked.id))
    AND (EXISTS (SELECT FROM headrace.results AS known
            WHERE known.job = %(job)s AND known.fingerprint = asked.second
                AND (%(by_request)s OR known.id = asked.id) AND known.run IS DISTINCT FROM %(but_of)s)
        OR EXISTS (SELECT FROM headrace.results AS known
            WHERE known.job = %(job)s AND known.fingerprint = asked.first AND known.status = 'failed'
                AND known.reason = ANY (string_to_array(asked.reasons, ','))
                AND (%(by_request)s OR known.id = asked.id) AND known.run IS DISTINCT FROM %(but_of)s)
        OR EXISTS (SELECT FROM headrace.former_results AS former
            WHERE former.job = %(job)s AND former.fingerprint = asked.second
                AND (%(by_request)s OR former.id = asked.id)))
"""
_ANY = """
SELECT EXISTS (SELECT FROM headrace.results WHERE job = %(job)s
        AND (model = ANY (%(models)s) OR status = 'failed' AND reason = ANY (%(reasons)s)))
    OR EXISTS (SELECT FROM headrace.former_results WHERE job = %(job)s AND model = ANY (%(models)s))
"""


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one job, and what was asked after them; small enough to travel to every task.

    `by_request`: a result counts for every row that asks the same, else for the row of its id alone. Results of the
    run `but_of` do not count: what that run asks must not change while it runs.
    """

    url: SecretStr
    job: str
    by_request: bool
    but_of: str

    def any(self, models: Sequence[str], reasons: Sequence[str]) -> bool:
        """Tell whether any row may ask one of these second models by now."""
        with connected(self.url) as connection:
            asked = {"job": self.job, "models": list(models), "reasons": list(reasons)}
            row = connection.execute(_ANY, asked).fetchone()
            return bool(row and row[0])

    def gone_on(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Keep the rows that ask their second model by now, for `mapInArrow`; columns as `cascade.candidates` has."""
        constant = {"job": self.job, "by_request": self.by_request, "but_of": self.but_of}
        names = {"ids": ID, "firsts": FINGERPRINT, "seconds": SECOND, "reasons": REASONS}
        with connected(self.url) as connection:
            for batch in batches:
                asked = {name: batch.column(column).to_pylist() for name, column in names.items()}
                # Planned with its values each time, since they say which index is the right one.
                found = set(connection.execute(_GONE_ON, {**constant, **asked}, prepare=False))
                pairs = zip(asked["ids"], asked["firsts"], strict=True)
                yield batch.filter(pa.array([pair in found for pair in pairs], pa.bool_()))
