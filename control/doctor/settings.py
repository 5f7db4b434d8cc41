"""The settings as far as several programs share them, read whole although some are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import yaml
from pydantic import SecretStr

from control.doctor.finding import Finding, missettled, ok, warn
from schemas.endpoints import KEY, EndpointSettings, read_models
from schemas.models import Endpoint, Model
from schemas.settings import (
    DatabaseSettings,
    GroupSettings,
    KafkaSettings,
    LogSettings,
    SettingsError,
    TopicSettings,
    TracingSettings,
    secret,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Server:
    """One endpoint of an alias, with the name that it knows the model by; `key_name` is the variable of its key."""

    alias: str
    base_url: str
    model: str
    key_name: str
    key: SecretStr | None

    @property
    def about(self) -> str:
        """How its findings are named."""
        return f"endpoint {self.alias} {self.base_url}"


@dataclass
class Told:
    """What could be read; None is what could not."""

    kafka: KafkaSettings | None = None
    topics: TopicSettings | None = None
    group: GroupSettings | None = None
    database: DatabaseSettings | None = None
    endpoints: EndpointSettings | None = None
    models: Mapping[str, Model] | None = None
    servers: list[Server] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def read(environ: Mapping[str, str]) -> Told:
    """Read every group, the models file and the keys; what is wrong is among the findings."""
    told = Told()
    told.kafka = _read(told, KafkaSettings.read, environ)
    told.topics = _read(told, TopicSettings.read, environ)
    told.group = _read(told, GroupSettings.read, environ)
    told.database = _read(told, DatabaseSettings.read, environ)
    for others in (LogSettings.read, TracingSettings.read):
        _read(told, others, environ)
    told.endpoints = _read(told, EndpointSettings.read, environ)
    if told.endpoints is not None:
        told.models = _read(told, _models, told.endpoints)
    told.servers = list(_servers(told, environ))
    if not told.findings:
        told.findings.append(ok("settings", "read"))
    return told


V = TypeVar("V")


def _read(told: Told, read: Callable[[V], T], given: V) -> T | None:
    try:
        return read(given)
    except SettingsError as error:
        step = "correct it; .env.example names every setting"
        told.findings += [missettled("settings", line.removeprefix("settings: "), step) for line in _lines(error)]
        return None


def _lines(error: SettingsError) -> list[str]:
    return str(error).splitlines()


def _models(settings: EndpointSettings) -> Mapping[str, Model]:
    return read_models(settings, yaml.safe_load)


def _servers(told: Told, environ: Mapping[str, str]) -> Iterator[Server]:
    """Endpoints that can be asked: one whose key cannot be used is told of and left out."""
    one = told.endpoints is not None and told.endpoints.models_file is None
    keys: dict[str, SecretStr | None] = {}
    broken: set[str] = set()
    for alias, endpoint in _endpoints(told):
        name = KEY if one else endpoint.api_key_env or ""
        if name and name not in keys and name not in broken:
            _read_key(told, name, environ, keys, broken, quiet=one)
        if name not in broken:
            yield Server(alias, endpoint.base_url, endpoint.model or alias, name, keys.get(name))


def _endpoints(told: Told) -> Iterator[tuple[str, Endpoint]]:
    for alias, model in (told.models or {}).items():
        for endpoint in model.endpoints:
            yield alias, endpoint


def _read_key(
    told: Told,
    name: str,
    environ: Mapping[str, str],
    keys: dict[str, SecretStr | None],
    broken: set[str],
    *,
    quiet: bool,
) -> None:
    """Read a key as a worker does: its file wins; an absent one is none."""
    path = environ.get(f"{name}_FILE")
    if not (path or environ.get(name, "").strip()):
        keys[name] = None
        if not quiet:
            told.findings.append(warn("settings", f"{name} is not set: its endpoints get no key", f"set {name}"))
        return
    try:
        keys[name] = _sendable(name, secret(name, {f"{name}_FILE": path} if path else environ))
    except SettingsError as error:
        broken.add(name)
        told.findings += [missettled("settings", said, "mend the key") for said in error.problems]


def _sendable(name: str, key: SecretStr) -> SecretStr:
    text = key.get_secret_value()
    if not (text.isascii() and text.isprintable()):
        raise SettingsError("settings", [f"{name} holds a character that no HTTP header can carry"])
    return key
