"""Direct mode on the executors: each task answers its rows with a worker of its own and tells what became of each."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import RecordBatch
from pyspark import TaskContext

from producer.columns import FINGERPRINT, ID, VALUE
from producer.errors import UnreachableError
from producer.ledger import Ledger
from producer.lookup import unfinished
from schemas.settings import SettingsError
from schemas.statuses import ExitCode
from worker.attempt import Attempt
from worker.direct import Halt, Part, settings_for
from worker.feed import Row, in_slices
from worker.logs import set_up
from worker.outcomes import OPEN, SUPERSEDED, Outcome
from worker.settings import WorkerSettings

log = logging.getLogger(__name__)

# What the driver counts by, besides the ends of `results`: rows that were not given to the worker, and one line of a
# task that leaves rows open, which says why.
SKIPPED, HALTED = "skipped", "halted"
LEFT_OPEN, OVERTAKEN = OPEN, SUPERSEDED
_TEXTS, _NUMBERS = Outcome._fields[:3], Outcome._fields[3:]
SCHEMA = ", ".join([*(f"{name} string" for name in _TEXTS), *(f"{name} long" for name in _NUMBERS)])
_ARROW = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _NUMBERS)])
_PLACES_A_TASK = 2**32
_LOOK_AGAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a task needs; it travels pickled, so no secret shows in a plan. Its environment says what it may call.

    `looks_up`: rows whose request has a finished result of another run are skipped.
    """

    ledger: Ledger
    run: str
    looks_up: bool

    def answer(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Answer the rows of one task, for `mapInArrow`: one line of `SCHEMA` for each, in the order of their ends.

        Whatever becomes of a row is a line; it raises only for what another attempt may find mended.
        """
        for outcomes in self._outcomes(batches):
            if outcomes:
                columns = zip(*outcomes, strict=True)
                yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], _ARROW)

    def _outcomes(self, batches: Iterator[RecordBatch]) -> Iterator[list[Outcome]]:
        try:
            settings = settings_for(os.environ, self.ledger.url)
        except SettingsError as error:
            yield from ([Outcome(id_, OPEN) for id_ in _ids(batch)] for batch in batches)
            yield [_halted(Halt(ExitCode.WRONG_SETTINGS, f"on an executor: {error}"))]
            return
        set_up(settings.log)
        with Attempt(self._part(), settings) as attempt:
            for batch in batches:
                wanted, skipped = self._split(batch, settings)
                yield skipped
                for rows in in_slices(_rows(wanted)):
                    yield from attempt.answer(rows)
            yield from attempt.finish()
        if attempt.halt is not None:
            yield [_halted(attempt.halt)]

    def _part(self) -> Part:
        """Attempts of all tasks have ascending numbers, so a later one brings the later version of a row."""
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context else 0
        return Part(self.ledger.job, self.run, attempt * _PLACES_A_TASK)

    def _split(self, batch: RecordBatch, settings: WorkerSettings) -> tuple[RecordBatch, list[Outcome]]:
        if not self.looks_up or not batch.num_rows:
            return batch, []
        wanted = self._unfinished(batch, time.monotonic() + settings.fleet.direct_patience)
        asked = set(_ids(wanted))
        return wanted, [Outcome(id_, SKIPPED) for id_ in _ids(batch) if id_ not in asked]

    def _unfinished(self, batch: RecordBatch, deadline: float) -> RecordBatch:
        """Look rows up, again for a while when the database is away: another attempt would find it no sooner."""
        while True:
            try:
                with self.ledger.finished() as finished:
                    return unfinished(batch, finished)
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_AGAIN_SECONDS)


def _ids(batch: RecordBatch) -> list[str]:
    ids: list[str] = batch.column(ID).cast(pa.string()).to_pylist()
    return ids


def _rows(batch: RecordBatch) -> Sequence[Row]:
    columns = (_ids(batch), batch.column(VALUE).to_pylist(), batch.column(FINGERPRINT).to_pylist())
    return [Row(*row) for row in zip(*columns, strict=True)]


def _halted(halt: Halt) -> Outcome:
    """Write why a task leaves rows: of all tasks' lines the greatest is to be the one that tells most."""
    return Outcome("", HALTED, f"{int(halt.cause)}{int(halt.code)}{halt.text}")


def halt_of(line: str) -> tuple[ExitCode, str]:
    """Read such a line."""
    return ExitCode(int(line[1])), line[2:]
