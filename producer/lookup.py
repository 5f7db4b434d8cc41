"""Which rows of a batch have a finished result already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import RecordBatch

from producer.columns import FINGERPRINT, ID

# Tells which of these ids, with these fingerprints, have a finished result.
Finished = Callable[[Sequence[str], Sequence[str]], set[str]]


@contextmanager
def all_finished() -> Iterator[Finished]:
    """Stand in for the look-up where it is known that whatever is asked about is finished."""
    yield lambda ids, _: set(ids)


def without(batch: RecordBatch, already: Collection[str]) -> RecordBatch:
    """Keep the rows of a batch whose ids are not among these."""
    if not already:
        return batch
    ids = batch.column(ID).cast(pa.string()).to_pylist()
    return batch.filter(pa.array([id_ not in already for id_ in ids], pa.bool_()))


def unfinished(batch: RecordBatch, finished: Finished) -> RecordBatch:
    """Keep the rows of a batch that have no finished result."""
    ids = batch.column(ID).cast(pa.string()).to_pylist()
    done = finished(ids, batch.column(FINGERPRINT).to_pylist())
    return batch.filter(pa.array([id_ not in done for id_ in ids], pa.bool_())) if done else batch
