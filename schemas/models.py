"""The models file: model alias to endpoints, limits, prices and time-outs."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, TypeAdapter, field_validator

_HTTP = TypeAdapter(HttpUrl)


def base_url(value: str) -> str:
    """Check an endpoint's address and take off its trailing slash; raises `ValueError` without showing it."""
    try:
        url = _HTTP.validate_python(value.strip())
    except ValueError:
        raise ValueError("must look like http://host:8000/v1") from None
    if url.username or url.password:
        raise ValueError("must not hold a user or password: use the key setting")
    if url.query or url.fragment:
        raise ValueError("must end with its path: no query and no fragment")
    return value.strip().rstrip("/")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Endpoint(_Part):
    """One server that answers for an alias; its limits are limits of the whole fleet."""

    base_url: str
    model: str | None = Field(None, description="the server's name of the model; the alias if absent")
    api_key_env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    weight: float = Field(1, ge=0)
    rpm: int | None = Field(None, ge=1, description="requests a minute")
    tpm: int | None = Field(None, ge=1, description="tokens a minute")
    max_concurrency: int | None = Field(None, ge=1)

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        return base_url(value)


class Price(_Part):
    """USD a million tokens."""

    input_per_million: Decimal = Field(ge=0)
    output_per_million: Decimal = Field(ge=0)
    batch_factor: Decimal = Field(Decimal("0.5"), ge=0, le=1)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """Price one call in USD."""
        tokens = self.input_per_million * prompt_tokens + self.output_per_million * completion_tokens
        return tokens / 1_000_000


class Timeouts(_Part):
    """Seconds to connect, between two bytes, and for a whole call."""

    connect: float = Field(10, gt=0)
    read: float = Field(120, gt=0)
    total: float = Field(600, gt=0)


class Model(_Part):
    """What an alias stands for."""

    endpoints: Annotated[list[Endpoint], Field(min_length=1)]
    price: Price | None = None
    timeouts: Timeouts = Timeouts()

    @field_validator("endpoints")
    @classmethod
    def _some_are_called(cls, value: list[Endpoint]) -> list[Endpoint]:
        if value and not any(endpoint.weight for endpoint in value):
            raise ValueError("every weight is 0, so no call could ever leave: take the alias out instead")
        return value


class ModelsFile(_Part):
    """A whole models file."""

    models: Annotated[dict[str, Model], Field(min_length=1)]
