"""Which endpoints there are, as the environment tells: one address, or a models file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from schemas import models
from schemas.documents import read_document
from schemas.settings import Settings, SettingsError

KEY = "LLM_API_KEY"
_DEFAULT_MODEL = "default"


class ModelsSettings(Settings):
    """The file of the models, and which of them is asked by messages that name none; both may be absent."""

    model: str | None = Field(None, alias="LLM_MODEL")
    models_file: Path | None = Field(None, alias="MODELS_FILE")


class EndpointSettings(ModelsSettings):
    """The one endpoint with its key and model, or the file of several."""

    base_url: str | None = Field(None, alias="LLM_BASE_URL")
    key: SecretStr | None = Field(None, alias=KEY)
    key_file: Path | None = Field(None, alias="LLM_API_KEY_FILE")

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        return None if value is None else models.base_url(value)

    @model_validator(mode="after")
    def _names_an_endpoint(self) -> Self:
        if self.base_url is None and self.models_file is None:
            raise ValueError("set LLM_BASE_URL (one endpoint) or MODELS_FILE (several)")
        return self


def read_models(settings: EndpointSettings, load: Callable[[str], Any]) -> Mapping[str, models.Model]:
    """Read the models as they are now; `load` turns YAML into plain values. Raises `SettingsError`."""
    if settings.models_file is not None:
        return read_file(settings, load)
    assert settings.base_url is not None
    alias = settings.model or _DEFAULT_MODEL
    return {alias: models.Model(endpoints=[models.Endpoint(base_url=settings.base_url)])}


def read_file(settings: ModelsSettings, load: Callable[[str], Any]) -> Mapping[str, models.Model]:
    """Read the models file, which must be named; raises `SettingsError`."""
    assert settings.models_file is not None
    found = read_document(settings.models_file, models.ModelsFile, load).models
    if settings.model is not None and settings.model not in found:
        known = ", ".join(sorted(found))
        raise SettingsError(
            "settings", [f"LLM_MODEL {settings.model} is no alias of {settings.models_file}; it knows {known}"]
        )
    return found


def default_alias(settings: ModelsSettings, found: Mapping[str, models.Model]) -> str:
    """Choose the alias of messages that name none."""
    named = settings.model if settings.model in found or settings.models_file is None else None
    return named or next(iter(found))
