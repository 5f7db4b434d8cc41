"""The models file for those who call no model: prices, and which aliases there are. No key is looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.endpoints import ModelsSettings, default_alias, read_file
from schemas.job import Job
from schemas.models import Model, Price


@dataclass(frozen=True, slots=True)
class Catalog:
    """A models file that was read, and the alias of messages that name none."""

    path: Path
    models: Mapping[str, Model]
    default: str

    def price(self, alias: str | None) -> Price | None:
        """Give the price of an alias, None if the file has none."""
        model: Model | None = self.models.get(alias or self.default)
        return model.price if model else None

    def problems(self, job: Job) -> Iterator[str]:
        """Name each alias of a job file that the models file does not know, with its place."""
        for place, alias in job.aliases:
            if alias not in self.models:
                yield f"{place}: {self.path} knows no model {alias}; it knows {', '.join(sorted(self.models))}"


def read(settings: ModelsSettings, load: Callable[[str], Any]) -> Catalog | None:
    """Read the file that the settings name, None if they name none; raises `SettingsError` with every problem."""
    if settings.models_file is None:
        return None
    found = read_file(settings, load)
    return Catalog(settings.models_file, found, default_alias(settings, found))
