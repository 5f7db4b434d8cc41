"""How a worker works, as the environment tells."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.endpoints import EndpointSettings
from schemas.settings import GroupSettings


class FleetSettings(EndpointSettings, GroupSettings):
    """How one worker works."""

    max_in_flight: int = Field(256, alias="MAX_IN_FLIGHT", ge=1, le=10_000)
    drain_seconds: float = Field(25, alias="DRAIN_SECONDS", ge=1)
    outage_hours: float = Field(24, alias="OUTAGE_HOURS", gt=0)
    direct_patience: float = Field(300, alias="DIRECT_PATIENCE_SECONDS", ge=1)
    metrics_port: int = Field(9400, alias="METRICS_PORT", ge=0, le=65535)
    metrics_host: str = Field("127.0.0.1", alias="METRICS_HOST")
    transport: Literal["aiohttp", "httpx"] = Field("aiohttp", alias="LLM_TRANSPORT")
