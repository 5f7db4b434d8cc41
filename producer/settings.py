"""Settings of the producer: the environment, and the job file with what belongs to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from schemas.documents import read_document
from schemas.job import Job
from schemas.paths import locate
from schemas.settings import DatabaseSettings, KafkaSettings, LogSettings, Settings, SettingsError, TopicSettings

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Everything the producer takes from the environment."""

    kafka: KafkaSettings
    topics: TopicSettings
    database: DatabaseSettings
    log: LogSettings


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that was read, and the folder that its relative paths start at."""

    job: Job
    folder: Path
    response_format: Mapping[str, Any] | None = None

    def locate(self, path: str) -> str:
        """Resolve a path of the job file."""
        return locate(self.folder, path)


def read_settings(environ: Mapping[str, str]) -> ProducerSettings:
    """Read all groups; raises `SettingsError` with the problems of all of them at once."""
    groups: list[Settings] = []
    problems: list[str] = []
    for group in (KafkaSettings, TopicSettings, DatabaseSettings, LogSettings):
        try:
            groups.append(group.read(environ))
        except SettingsError as error:
            problems += error.problems
    if problems:
        raise SettingsError("settings", problems)
    return ProducerSettings(*groups)  # type: ignore[arg-type]


def read_job(path: Path) -> JobFile:
    """Read a job file and the JSON schema it names; raises `SettingsError` with all problems and their places."""
    job = read_document(path, Job, yaml.safe_load)
    folder = path.absolute().parent
    return JobFile(job, folder, _response_format(path, folder, job.output.json_schema))


def _response_format(job_file: Path, folder: Path, schema: Path | None) -> Mapping[str, Any] | None:
    if schema is None:
        return None
    try:
        content = json.loads((folder / schema).read_text(encoding="utf-8-sig"))
    except OSError as error:
        problem = f"{schema} cannot be read: {error.strerror}"
    except ValueError:
        problem = f"{schema} is not JSON in UTF-8"
    else:
        if isinstance(content, dict):
            return {"type": "json_schema", "json_schema": _named(schema, content)}
        problem = f"{schema} must hold a JSON object"
    raise SettingsError(str(job_file), [f"output.json_schema: {problem}"])


def _named(path: Path, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = _NOT_IN_A_NAME.sub("_", path.stem)[:_LONGEST_NAME] or "output"
    return {"name": name, "schema": schema, "strict": True}
