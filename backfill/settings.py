"""Settings of the backfill: the environment, and the job file with what belongs to it."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import SecretStr

from schemas import examples, jdbc, sources
from schemas.documents import read_document
from schemas.job import Job
from schemas.paths import locate
from schemas.programs import BACKFILL
from schemas.prompt_version import prompt_version
from schemas.settings import DatabaseSettings, LogSettings, Settings, SettingsError

_TABLE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_FILE = re.compile(r"^file:/+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BackfillSettings:
    """Everything the backfill takes from the environment."""

    database: DatabaseSettings
    log: LogSettings


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that was read and can be carried out; `folder` is where its relative paths start."""

    job: Job
    folder: Path
    json_schema: Mapping[str, Any] | None
    prompt_version: str
    password: SecretStr | None = None

    @property
    def source_path(self) -> str:
        """Where the source lies, for formats that are read by path."""
        return locate(self.folder, self.job.source.path or "")

    @property
    def target_path(self) -> str:
        """Where the target lies."""
        return locate(self.folder, self.job.target.path or "")

    @property
    def beside(self) -> str:
        """The path that what stands beside the target is named after."""
        return locate(self.folder, self.job.target.base)

    @property
    def target_name(self) -> str:
        """One name for the target, however it is written: what runs that would collide have in common."""
        return self.job.target.table or _plain(self.target_path)


def read_settings(environ: Mapping[str, str]) -> BackfillSettings:
    """Read all groups; raises `SettingsError` with the problems of all of them at once."""
    groups: list[Settings] = []
    problems: list[str] = []
    for group in BACKFILL:
        try:
            groups.append(group.read(environ))
        except SettingsError as error:
            problems += error.problems
    if problems:
        raise SettingsError("settings", problems)
    return BackfillSettings(*groups)  # type: ignore[arg-type]


def read_job(path: Path, environ: Mapping[str, str] = MappingProxyType({})) -> JobFile:
    """Read a job file, and the JSON schema, the examples and the password it names the places of.

    Raises `SettingsError` with all problems and their places.
    """
    job = read_document(path, Job, yaml.safe_load)
    folder = path.absolute().parent
    json_schema, unreadable = _json_schema(folder, job.output.json_schema)
    shown, unusable = examples.read(folder, job.prompt.examples)
    password, unset = jdbc.password(job.source, environ)
    if problems := [*unreadable, *unusable, *unset, *_problems(job, folder)]:
        raise SettingsError(str(path), problems)
    return JobFile(job, folder, json_schema, prompt_version(job, json_schema, shown), password)


def _problems(job: Job, folder: Path) -> Iterator[str]:
    """Name every field that cannot be honoured: refused, never ignored."""
    yield from _target(job)
    if len({name.lower() for name in job.target.partition_by}) < len(job.target.partition_by):
        yield "target.partition_by: names a column twice"
    yield from sources.problems(job.source)
    yield from _overlap(job, folder)


def _target(job: Job) -> Iterator[str]:
    target = job.target
    if target.format != "iceberg":
        if target.table:
            yield f"target.table: {target.format} is written by its path; leave it out"
        return
    if target.path:
        yield "target.path: iceberg is written by its table's name; leave it out"
    if not _TABLE.fullmatch(target.table or ""):
        yield "target.table: must look like catalog.schema.table, of letters, digits, _ and -"
    if target.table == job.source.table:
        yield "target.table: is the source; give the target a name of its own"


def _overlap(job: Job, folder: Path) -> Iterator[str]:
    if not (job.source.path and job.target.path):
        return
    source, target = (f"{_plain(locate(folder, path))}/" for path in (job.source.path, job.target.path))
    if source.startswith(target) or target.startswith(source):
        yield "target.path: lies in the source's path or around it; give the target a folder of its own"


def _plain(path: str) -> str:
    """Drop the ways in which one place is written differently: `file:`, `//`, `./` and a slash at the end."""
    scheme, found, rest = _FILE.sub("/", path).rpartition("://")
    return f"{scheme}{found}{posixpath.normpath(rest)}"


def _json_schema(folder: Path, schema: Path | None) -> tuple[Mapping[str, Any] | None, list[str]]:
    if schema is None:
        return None, []
    try:
        content = json.loads((folder / schema).read_text(encoding="utf-8-sig"))
    except OSError as error:
        return None, [f"output.json_schema: {schema} cannot be read: {error.strerror}"]
    except ValueError:
        return None, [f"output.json_schema: {schema} is not JSON in UTF-8"]
    if isinstance(content, dict):
        return content, []
    return None, [f"output.json_schema: {schema} must hold a JSON object"]
