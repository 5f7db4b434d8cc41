"""One start of one job: what was asked for, the names it goes by, and what it has counted so far."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Observation

from producer.arguments import Arguments
from producer.counts import Counts
from producer.draft import Draft
from producer.ledger import Ledger
from producer.settings import JobFile, ProducerSettings
from producer.source import Table
from schemas.estimate import Forecast


@dataclass(slots=True)
class Run:
    """One run; only the driver's main thread touches it."""

    file: JobFile
    settings: ProducerSettings
    arguments: Arguments
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    id: str = ""
    counts: Counts = field(default_factory=Counts)
    forecast: Forecast | None = None
    # What the last line tells besides the counts.
    told: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = self.id or f"{self.started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"

    @property
    def has_canary(self) -> bool:
        """Whether some rows go first: not in a dry run, nor where the starter says so."""
        return not (self.arguments.dry_run or self.arguments.no_canary)

    @property
    def ledger(self) -> Ledger:
        """The job's view of the database."""
        job = self.file.job
        return Ledger(self.settings.database.url, job.job, self.arguments.retry_failed, job.dedup)


@dataclass(frozen=True, slots=True)
class Judged:
    """All rows of the source with message and verdict, and the table they came from.

    `requests`: who asks what, with `dedup`; `distinct`: how many rows pass, which is how many requests there are.
    `asks`: id, request and route of each row that passes; `seen`: what was counted of all rows on the way there.
    `draft`: where all requests are written already, if nothing repeats.
    """

    rows: DataFrame
    table: Table
    requests: DataFrame | None = None
    distinct: int | None = None
    seen: Observation | None = None
    asks: DataFrame | None = None
    draft: Draft | None = None
