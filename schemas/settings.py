"""The environment, read in one place: each variable once, all problems at once, no secret ever shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from schemas import topics
from schemas.database import address_fault

# What is appended to a secret's variable for the path of a file that holds it.
FILE = "_FILE"


class SettingsError(Exception):
    """Everything that is wrong with the settings or a file of settings, one line a problem."""

    def __init__(self, where: str, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{where}: {problem}" for problem in problems))


class Settings(BaseModel):
    """A frozen group of settings; each field's alias is its environment variable.

    A field of type `SecretStr` also reads the variable with `_FILE` appended: the path of a file that holds it.
    An empty variable counts as absent.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, extra="ignore", validate_by_name=True)

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Read the group from the environment; raises `SettingsError` with all problems at once."""
        values, problems = _values(cls, environ)
        try:
            settings = cls.model_validate(values)
        except ValidationError as error:
            problems += [f"{_name(e['loc'])} {_say(e)}" for e in error.errors(include_input=False)]
        if problems:
            raise SettingsError("settings", problems)
        return settings


class KafkaSettings(Settings):
    """How to reach the brokers."""

    bootstrap_servers: str = Field("localhost:9092", alias="KAFKA_BOOTSTRAP_SERVERS")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = Field(
        None, alias="KAFKA_SECURITY_PROTOCOL"
    )
    sasl_mechanism: str | None = Field(None, alias="KAFKA_SASL_MECHANISM")
    sasl_username: str | None = Field(None, alias="KAFKA_SASL_USERNAME")
    sasl_password: SecretStr | None = Field(None, alias="KAFKA_SASL_PASSWORD")
    ssl_ca_location: Path | None = Field(None, alias="KAFKA_SSL_CA_LOCATION")
    producer_conf: dict[str, str] = Field(default_factory=dict, alias="KAFKA_PRODUCER_CONF")
    consumer_conf: dict[str, str] = Field(default_factory=dict, alias="KAFKA_CONSUMER_CONF")

    @field_validator("producer_conf", "consumer_conf", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        if any(not (name.strip() and equals) for name, equals, _ in pairs):
            raise ValueError("must be name=value,name=value")
        return {name.strip(): text.strip() for name, _, text in pairs}

    @field_validator("producer_conf", "consumer_conf")
    @classmethod
    def _leaves_the_design_alone(cls, value: dict[str, str]) -> dict[str, str]:
        if fixed := sorted(RESERVED.intersection(value)):
            raise ValueError(f"may not set {', '.join(fixed)}: delivery and commits rest on them")
        return value


# What the promises of delivery, commit and safe transport rest on, by each name that librdkafka takes for it; no
# pass-through may change these.
RESERVED = frozenset(
    """acks request.required.acks bootstrap.servers metadata.broker.list delivery.report.only.error
    enable.auto.commit auto.commit.enable
    enable.auto.offset.store enable.idempotence enable.ssl.certificate.verification group.id partitioner
    sasl.password sasl.username ssl.endpoint.identification.algorithm auto.offset.reset enable.partition.eof
    message.max.bytes transactional.id""".split()
)


class TopicSettings(Settings):
    """Which topics carry prompts and dead letters."""

    prompts: str = Field(topics.PROMPTS_PATTERN, alias="PROMPTS_TOPIC")
    partitions: int = Field(topics.PARTITIONS, alias="PROMPTS_PARTITIONS", ge=1, le=10_000)
    dead_letters: str = Field(topics.DEAD_LETTERS, alias="DEAD_LETTER_TOPIC")

    @field_validator("prompts")
    @classmethod
    def _subscribes(cls, value: str) -> str:
        if not topics.is_subscription(value):
            raise ValueError("must be a legal topic name, or a regular expression beginning with ^")
        return value

    @field_validator("dead_letters")
    @classmethod
    def _is_apart(cls, value: str, info: Any) -> str:
        if not topics.is_legal(value):
            raise ValueError("must be a legal topic name")
        if topics.subscribes_to(info.data.get("prompts", ""), value):
            raise ValueError("is a topic that PROMPTS_TOPIC subscribes to: dead letters would be read as prompts")
        return value

    @property
    def of_nobody(self) -> frozenset[str]:
        """The topics that any job may use: the plain one, and a single one that all workers read."""
        return frozenset({topics.PROMPTS_PREFIX, self.prompts})


class GroupSettings(Settings):
    """Which consumer group the workers are in: what it has committed is what they have dealt with."""

    group: str = Field("headrace-worker", alias="CONSUMER_GROUP", min_length=1)


class DatabaseSettings(Settings):
    """How to reach Postgres; the address may hold a password, so it is a secret."""

    url: SecretStr = Field(SecretStr("postgresql://headrace@localhost:5432/headrace"), alias="DATABASE_URL")

    @field_validator("url")
    @classmethod
    def _is_postgres(cls, value: SecretStr) -> SecretStr:
        scheme, found, rest = value.get_secret_value().partition("://")
        if not found or scheme not in {"postgresql", "postgres", "postgresql+psycopg"}:
            raise ValueError("must look like postgresql://user@host:5432/database")
        if fault := address_fault(rest):
            raise ValueError(fault)
        return SecretStr(f"postgresql://{rest}")


class LogSettings(Settings):
    """How much is logged, and in which form."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", alias="LOG_LEVEL")
    format: Literal["json", "text"] = Field("json", alias="LOG_FORMAT")


class TracingSettings(Settings):
    """Where traces go; without an address none are made. OpenTelemetry's own variables settle the rest."""

    endpoint: str | None = Field(None, alias="OTEL_EXPORTER_OTLP_ENDPOINT")

    @field_validator("endpoint")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://: traces are sent by OTLP over HTTP")
        return value

    @property
    def address(self) -> str:
        """Where spans are posted."""
        return f"{(self.endpoint or '').rstrip('/')}/v1/traces"


class ExporterSettings(Settings):
    """Where `headrace exporter` listens."""

    host: str = Field("127.0.0.1", alias="EXPORTER_HOST", min_length=1)
    port: int = Field(9401, alias="EXPORTER_PORT", ge=0, le=65535)


def variables(*groups: type[Settings]) -> dict[str, tuple[type[Settings], str]]:
    """Name every variable of these groups, with the group and field that it settles."""
    return {_alias(group, name): (group, name) for group in groups for name in group.model_fields}


def is_secret(group: type[Settings], name: str) -> bool:
    """Tell whether a field holds a secret, and so may come from a file."""
    annotation = group.model_fields[name].annotation
    return SecretStr in (annotation, *getattr(annotation, "__args__", ()))


def secret(name: str, environ: Mapping[str, str]) -> SecretStr:
    """Read one secret whose variable a file names, or the file that `name` with `_FILE` appended gives.

    Raises `SettingsError` if there is none.
    """
    values = {name: environ[name]} if environ.get(name) else {}
    problems: list[str] = []
    if path := environ.get(name + FILE, ""):
        _read_secret(name, path, values, problems)
    _check_secret(name, values, problems)
    if not (problems or values.get(name)):
        problems = [f"{name} (or {name}{FILE}) is not set"]
    if problems:
        raise SettingsError("settings", problems)
    return SecretStr(values[name])


def _values(group: type[Settings], environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    values: dict[str, str] = {}
    problems: list[str] = []
    for name in group.model_fields:
        alias = _alias(group, name)
        if text := environ.get(alias, ""):
            values[alias] = text
        if not is_secret(group, name):
            continue
        if path := environ.get(alias + FILE, ""):
            _read_secret(alias, path, values, problems)
        _check_secret(alias, values, problems)
    return values, problems


def _read_secret(alias: str, path: str, values: dict[str, str], problems: list[str]) -> None:
    if alias in values:
        problems.append(f"{alias} and {alias}{FILE} are both set: keep one")
        return
    try:
        values[alias] = Path(path).read_text(encoding="utf8")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{alias}{FILE} {path} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}")


def _check_secret(alias: str, values: dict[str, str], problems: list[str]) -> None:
    if alias not in values:
        return
    values[alias] = values[alias].strip()
    if "\n" in values[alias] or "\r" in values[alias]:
        problems.append(f"{alias} holds a line break inside: keep one line")
        values.pop(alias)


def _alias(group: type[Settings], name: str) -> str:
    return group.model_fields[name].alias or name


def _name(location: tuple[int | str, ...]) -> str:
    return str(location[0]) if location else "together:"


def _say(error: Any) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    return message if error["type"] == "value_error" else f"is wrong: {message}"
