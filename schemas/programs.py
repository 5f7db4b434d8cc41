"""Which settings each program reads: every group of environment variables, by the program's name."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.endpoints import ModelsSettings
from schemas.fleet import FleetSettings
from schemas.settings import (
    DatabaseSettings,
    ExporterSettings,
    GroupSettings,
    KafkaSettings,
    LogSettings,
    Settings,
    TopicSettings,
    TracingSettings,
)

WORKER = (KafkaSettings, TopicSettings, DatabaseSettings, FleetSettings, LogSettings, TracingSettings)
PRODUCER = (KafkaSettings, TopicSettings, DatabaseSettings, LogSettings, TracingSettings, ModelsSettings)
BACKFILL = (DatabaseSettings, LogSettings)
EXPORTER = (DatabaseSettings, ExporterSettings)
# What the operator's commands read, all of them together.
HEADRACE = (KafkaSettings, TopicSettings, GroupSettings, DatabaseSettings)

PROGRAMS: Mapping[str, tuple[type[Settings], ...]] = {
    "worker": WORKER,
    "producer": PRODUCER,
    "backfill": BACKFILL,
    "exporter": EXPORTER,
    "headrace": HEADRACE,
}
