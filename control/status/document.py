"""What `headrace status --json` prints: `headrace schema status` gives its JSON Schema. Names are only ever added."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from schemas.statuses import JobState, PausedFor, Reason, Unit

Usd = Annotated[Decimal, PlainSerializer(float, return_type=float)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Spend(_Part):
    """What calls have cost: at least `low`, at most `high`, since some ended without anybody seeing their answer."""

    calls: int = 0
    maybe_billed: int = 0
    unknown_calls: int = Field(0, description="calls whose cost has no known upper end, in no sum")
    low_usd: Usd = Decimal(0)
    high_usd: Usd = Decimal(0)
    low_tokens: int = 0
    high_tokens: int = 0
    budget_usd: Usd | None = None
    budget_tokens: int | None = None


class End(_Part):
    """Seconds until the last row ends, at the rate of the last minutes, and the range in which that lies."""

    seconds: float
    earliest_seconds: float
    latest_seconds: float | None = Field(description="null: the rows end too unevenly to tell")


class RunStatus(_Part):
    """One run of a job; an empty `run` stands for the messages that name none."""

    job: str
    run: str
    state: JobState | None = Field(description="null: no producer has recorded the run")
    paused_for: PausedFor | None
    topic: str | None
    created_at: datetime | None
    finished_at: datetime | None
    read: int | None = Field(description="this and the next four: null until the producer has told its counts")
    rejected: int | None
    deduplicated: int | None
    skipped: int | None
    published: int | None
    succeeded: int
    failed: int
    failed_by_reason: dict[Reason, int]
    in_flight: int = Field(description="rows that a worker holds by a lease which has not lapsed")
    released: int = Field(description="rows that were begun and that nobody holds now")
    left: int | None = Field(
        description="published less succeeded and failed, but never more than the lag of the topic; null if unknown"
    )
    rows_per_second: float | None = Field(description="over the last five minutes, or since the first row")
    eta: End | None
    spend: Spend


class WorkerStatus(_Part):
    """A worker that was heard of within 15 seconds."""

    worker: str
    in_flight: int
    open: int
    seen_seconds_ago: float


class CircuitStatus(_Part):
    """An endpoint that is not called now, and why."""

    endpoint: str
    reason: str | None
    detail: str | None
    opened_at: datetime


class LimitStatus(_Part):
    """A limit of the whole fleet; more than nothing leased ahead means that it holds calls back."""

    endpoint: str
    unit: Unit
    leased_ahead_seconds: float


class Lag(_Part):
    """One partition: the messages that the group has not committed; `committed` is null before its first commit."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int


class StatusDocument(_Part):
    """Everything that can be told at one moment, of one snapshot of the database."""

    at: datetime
    runs: list[RunStatus]
    workers: list[WorkerStatus]
    circuits: list[CircuitStatus]
    limits: list[LimitStatus]
    lag: list[Lag] | None = Field(description="null: Kafka did not answer, see `problems`")
    problems: list[str] = Field(description="what could not be read")
