"""Everything a worker is told from outside, checked before anything starts."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import yaml

from schemas import models
from schemas.endpoints import default_alias, read_models
from schemas.fleet import FleetSettings
from schemas.settings import (
    DatabaseSettings,
    KafkaSettings,
    LogSettings,
    SettingsError,
    TopicSettings,
    TracingSettings,
)
from worker.keys import Key

T = TypeVar("T")
KeysOf: TypeAlias = Callable[[Mapping[str, models.Model]], Mapping[str | None, Key]]


class WorkerSettings:
    """All groups of a worker, and the models it may ask; raises `SettingsError` with every problem at once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        problems: list[str] = []
        self.fleet = _read(FleetSettings.read, environ, problems)
        self.kafka = _read(KafkaSettings.read, environ, problems)
        self.topics = _read(TopicSettings.read, environ, problems)
        self.database = _read(DatabaseSettings.read, environ, problems)
        self.log = _read(LogSettings.read, environ, problems)
        self.tracing = _read(TracingSettings.read, environ, problems)
        if problems:
            raise SettingsError("settings", problems)
        # Behind a function, so that nothing shows what it holds.
        keys_of: KeysOf = lambda found: _keys(self.fleet, found, environ)  # noqa: E731
        self._keys_of = keys_of
        self.models, self.keys = self.read_models()

    def read_models(self) -> tuple[Mapping[str, models.Model], Mapping[str | None, Key]]:
        """Read the models as they are now, and their keys; raises `SettingsError` with every problem."""
        found = read_models(self.fleet, yaml.safe_load)
        return found, self._keys_of(found)

    @property
    def default_model(self) -> str:
        """The alias of messages that name none."""
        return self.default_of(self.models)

    def default_of(self, found: Mapping[str, models.Model]) -> str:
        """The same among other models."""
        return default_alias(self.fleet, found)

    @property
    def worker(self) -> str:
        """This process's name among all workers."""
        return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"


def _read(read: Callable[[Mapping[str, str]], T], environ: Mapping[str, str], problems: list[str]) -> T:
    try:
        return read(environ)
    except SettingsError as error:
        problems += error.problems
        return None  # type: ignore[return-value]


def _keys(
    fleet: FleetSettings, aliases: Mapping[str, models.Model], environ: Mapping[str, str]
) -> Mapping[str | None, Key]:
    """One key for each variable that an endpoint names; None stands for the one-endpoint set-up."""
    if fleet.models_file is None:
        return {None: Key(fleet.key.get_secret_value() if fleet.key else "", fleet.key_file)}
    names = {endpoint.api_key_env for model in aliases.values() for endpoint in model.endpoints} - {None}
    keys: dict[str | None, Key] = {None: Key("", None)}
    problems = []
    for name in sorted(str(name) for name in names):
        path = environ.get(f"{name}_FILE")
        keys[name] = Key(environ.get(name, ""), Path(path) if path else None)
        if problem := keys[name].problem:
            problems.append(f"{name}: {problem}")
    if problems:
        raise SettingsError("settings", problems)
    return keys
