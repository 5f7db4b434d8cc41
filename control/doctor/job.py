"""Whether a job file can be run with these settings, and how old its target is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import yaml

from control.doctor.finding import Finding, missettled, ok, warn
from control.doctor.settings import Told
from schemas.documents import read_document
from schemas.job import Job
from schemas.paths import locate
from schemas.settings import SettingsError
from schemas.topics import subscribes_to

_FILE = "file:"
_COMMITS = "_delta_log"


def check(path: Path, told: Told, topics: Collection[str] | None, now: datetime) -> list[Finding]:
    """Check a job file; `topics` are those that are there, None if Kafka did not tell."""
    about = f"job file {path}"
    try:
        job = read_document(path, Job, yaml.safe_load)
    except SettingsError as error:
        return [missettled(about, said, "`headrace schema job` describes it") for said in error.problems]
    schema = job.output.json_schema
    findings = [ok(about, f"job {job.job} can be read")]
    if schema is not None and not (path.absolute().parent / schema).is_file():
        findings.append(missettled(about, f"output.json_schema: {schema} is no file", "correct the path"))
    findings += [*_models(about, job, told), *_topic(job, told, topics)]
    return [*findings, _target(path, job, now)]


def _models(about: str, job: Job, told: Told) -> Iterator[Finding]:
    """Without a models file, any name is sent on to the one endpoint."""
    if told.models is None or told.endpoints is None or told.endpoints.models_file is None:
        return
    for name in sorted({alias for _, alias in job.aliases} - set(told.models)):
        said = f"routes name model {name}, of which {told.endpoints.models_file} knows nothing"
        yield missettled(about, said, "add the alias to the models file, or name another")


def _topic(job: Job, told: Told, topics: Collection[str] | None) -> Iterator[Finding]:
    about = f"topic {job.prompts_topic}"
    if job.mode == "direct":
        yield ok(about, "mode direct uses none")
    elif told.topics is not None and not subscribes_to(told.topics.prompts, job.prompts_topic):
        said = f"no worker reads it: PROMPTS_TOPIC is {told.topics.prompts}"
        yield missettled(about, said, "change PROMPTS_TOPIC, or topic of the job file")
    elif topics is not None and job.prompts_topic not in topics:
        yield ok(about, "is not there yet: the producer makes it")
    elif topics is not None:
        yield ok(about, "is there, and workers read it")


def _target(path: Path, job: Job, now: datetime) -> Finding:
    target = job.target
    about = f"target {target.path or target.table}"
    where = locate(path.absolute().parent, target.path) if target.path else ""
    if not where.startswith((_FILE, "/")):
        return ok(about, "its age is not known here: it is not on this machine")
    folder = Path("/" + where.removeprefix(_FILE).lstrip("/"))
    try:
        written = _written(folder)
    except OSError as error:
        return warn(about, f"cannot be looked at: {error.strerror}", "look with an account that may read it")
    if written is None:
        return ok(about, "is not there: no backfill has written it on this machine")
    age = timedelta(seconds=max(0, round(now.timestamp() - written)))
    return ok(about, f"last written {age} ago")


def _written(folder: Path) -> float | None:
    """When a table was last written: its newest commit, or its newest file."""
    if not folder.is_dir():
        return None
    inside = folder / _COMMITS if (folder / _COMMITS).is_dir() else folder
    return max(entry.stat().st_mtime for entry in (inside, *inside.iterdir()))
