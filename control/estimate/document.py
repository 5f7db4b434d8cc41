"""What `headrace estimate --json` prints: `headrace schema estimate` gives its JSON Schema. Names are only added."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Amount(_Part):
    """An amount from `low` to `high`; null is unknown, and of bounds nobody knows a point between them."""

    low: float
    point: float | None
    high: float | None


class ModelEstimate(_Part):
    """What the rows that were looked at took at one model."""

    model: str
    sampled: int = Field(description="rows that were looked at")
    share: float = Field(description="of all that were looked at")
    tokens_per_row: Amount | None = Field(description="their mean with its 95 % interval; null: not told")
    has_price: bool = Field(description="in the models file; else what calls cost at their time counts")


class Time(_Part):
    """Seconds from the first call to the last answer."""

    seconds: Amount | None
    at_least_seconds: float | None = Field(description="by the limits (rpm, tpm) of the models file")
    rests_on: str


class EstimateDocument(_Part):
    """What a run would take, and what that rests on."""

    job: str
    rows: int
    rows_are: str = Field(description="where the number comes from")
    usd: Amount | None = Field(description="null: no price is known")
    tokens: Amount | None
    confidence: float | None = Field(description="of the intervals; null: their ends are bounds")
    rests_on: str
    prices: str | None = Field(description="where they come from")
    models: list[ModelEstimate]
    time: Time
    notes: list[str]
