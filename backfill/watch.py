"""Run after run in one Spark session: each brings the target up to date, one that would find nothing is left out.

The first run reads everything. Later ones read the answers that have come since, by the cursor, and no others; when
the source or the table of requests has changed, or `full_every` has passed, everything is read again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from backfill import cursor
from backfill.counts import Counts
from backfill.errors import AlreadyRunningError, ReadError, RunFailedError, SourceGoneError, UnreachableError
from backfill.explain import spark_errors
from backfill.folders import Folders
from backfill.run import backfill
from backfill.settings import BackfillSettings, JobFile
from backfill.source import Cursor, database_session
from schemas import requests_table

# What another run, or the same one a little later, may do better.
_PASSING = (AlreadyRunningError, ReadError, RunFailedError, UnreachableError)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between the beginnings of two looks, and from one full run to the next."""

    seconds: float
    full_every: float = 3600.0


@dataclass(frozen=True, slots=True)
class State:
    """Where the last run that succeeded has left the target."""

    cursor: Cursor
    signature: str
    full_at: float

    def wants_all(self, signature: str, now: float, pace: Pace) -> bool:
        """Whether the next run is to read everything: what the cursor knows nothing of has changed, or it is time."""
        return signature != self.signature or now - self.full_at >= pace.full_every


@dataclass(frozen=True, slots=True)
class Watcher:
    """One target under watch; `told` gets counts and seconds of each run that wrote, `missed` what made one fail."""

    spark: SparkSession
    settings: BackfillSettings
    file: JobFile
    pace: Pace
    told: Callable[[Counts, float], None]
    missed: Callable[[Exception], None]

    def run(self, stop: threading.Event) -> Counts:
        """Look until stopped, between two runs and never in the middle of one; gives the last run's counts.

        Raises what a later run would find wrong again: `WrongJobError`, `SettingsError`; a source that has been there
        and is not any more may be one that somebody writes anew.
        """
        state: State | None = None
        last = Counts()
        while not stop.is_set():
            began = time.monotonic()
            try:
                state, last = self._look(state, last)
            except _PASSING as error:
                self.missed(error)
            except SourceGoneError as error:
                if state is None:
                    raise
                self.missed(error)
            stop.wait(max(self.pace.seconds - (time.monotonic() - began), 0))
        return last

    def _look(self, state: State | None, last: Counts) -> tuple[State, Counts]:
        signature, now = self.signature(), time.monotonic()
        url, job = self.settings.database.url, self.file.job.job
        since = None if state is None or state.wants_all(signature, now, self.pace) else state.cursor
        if state is not None and since is not None and not cursor.news(url, job, since):
            cursor.seen(url, job, self.file.target_name)
            return state, last
        counts = Counts()
        with database_session(url, job, self.file.target_name, since) as held, spark_errors():
            backfill(self.spark, self.file, held, counts)
        snapshot = held.snapshot
        cursor.keep(snapshot, self.file.target_name, counts)
        if counts.written:
            self.told(counts, time.monotonic() - now)
        full_at = now if state is None or snapshot.since is None else state.full_at
        return State(snapshot.cursor, signature, full_at), counts

    def signature(self) -> str:
        """What the files of the source and the runs of the producer look like; a table's source shows none.

        Raises `RunFailedError`: files may be changed while they are listed.
        """
        try:
            return self._stamps()
        except (Py4JError, OSError) as error:
            raise RunFailedError("the files of the source cannot be listed, somebody may be writing them") from error

    def _stamps(self) -> str:
        said = requests_table.address(self.file.beside)
        # What the producer is still writing is not said yet.
        found = requests_table.complete_runs(Folders(self.spark, said).files(said))
        if self.file.job.source.path is not None:
            found.append(Folders(self.spark, self.file.source_path).stamp(self.file.source_path))
        return " ".join(found)
