"""Settings of the producer: the environment, and the job file with what belongs to it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import SecretStr

from schemas import catalog, examples, jdbc
from schemas.catalog import Catalog
from schemas.documents import read_document
from schemas.endpoints import ModelsSettings
from schemas.examples import Example
from schemas.job import Job
from schemas.paths import locate
from schemas.programs import PRODUCER
from schemas.settings import (
    DatabaseSettings,
    KafkaSettings,
    LogSettings,
    Settings,
    SettingsError,
    TopicSettings,
    TracingSettings,
)

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Everything the producer takes from the environment."""

    kafka: KafkaSettings
    topics: TopicSettings
    database: DatabaseSettings
    log: LogSettings
    tracing: TracingSettings
    models: ModelsSettings
    catalog: Catalog | None = None

    def unchecked(self, job: Job) -> str | None:
        """Say which aliases of a job nobody has looked up, None if there are none."""
        names = ", ".join(sorted({alias for _, alias in job.aliases}))
        if self.catalog or not names:
            return None
        path = self.models.models_file
        why = f"MODELS_FILE {path} is not on this machine" if path else "MODELS_FILE is not set"
        return f"{why}, so whether workers know the models of the job file ({names}) is not checked"


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that was read, and the folder that its relative paths start at."""

    job: Job
    folder: Path
    response_format: Mapping[str, Any] | None = None
    password: SecretStr | None = None
    examples: tuple[Example, ...] = field(default=(), repr=False)

    def locate(self, path: str) -> str:
        """Resolve a path of the job file."""
        return locate(self.folder, path)


def read_settings(environ: Mapping[str, str]) -> ProducerSettings:
    """Read all groups; raises `SettingsError` with the problems of all of them at once."""
    groups: list[Settings] = []
    problems: list[str] = []
    for group in PRODUCER:
        try:
            groups.append(group.read(environ))
        except SettingsError as error:
            problems += error.problems
    if problems:
        raise SettingsError("settings", problems)
    settings = ProducerSettings(*groups)  # type: ignore[arg-type]
    # Spark may share the workers' environment and not their files.
    there = settings.models.models_file is not None and settings.models.models_file.exists()
    return replace(settings, catalog=catalog.read(settings.models, yaml.safe_load)) if there else settings


def read_job(
    path: Path, environ: Mapping[str, str] = MappingProxyType({}), refused: Callable[[Job], list[str]] = lambda _: []
) -> JobFile:
    """Read a job file, and the JSON schema, the examples and the password it names the places of.

    `refused` tells what else speaks against the job. Raises `SettingsError` with all problems and their places.
    """
    job = read_document(path, Job, yaml.safe_load)
    folder = path.absolute().parent
    response_format, unreadable = _response_format(folder, job.output.json_schema)
    shown, unusable = examples.read(folder, job.prompt.examples)
    password, unset = jdbc.password(job.source, environ)
    if problems := [*refused(job), *unreadable, *unusable, *unset]:
        raise SettingsError(str(path), problems)
    return JobFile(job, folder, response_format, password, shown)


def _response_format(folder: Path, schema: Path | None) -> tuple[Mapping[str, Any] | None, list[str]]:
    if schema is None:
        return None, []
    try:
        content = json.loads((folder / schema).read_text(encoding="utf-8-sig"))
    except OSError as error:
        problem = f"{schema} cannot be read: {error.strerror}"
    except ValueError:
        problem = f"{schema} is not JSON in UTF-8"
    else:
        if isinstance(content, dict):
            return {"type": "json_schema", "json_schema": _named(schema, content)}, []
        problem = f"{schema} must hold a JSON object"
    return None, [f"output.json_schema: {problem}"]


def _named(path: Path, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = _NOT_IN_A_NAME.sub("_", path.stem)[:_LONGEST_NAME] or "output"
    return {"name": name, "schema": schema, "strict": True}
