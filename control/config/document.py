"""What `headrace config show --json` prints: `headrace schema config` gives its JSON Schema. Names are only added."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, computed_field

from schemas.statuses import ExitCode


class Origin(StrEnum):
    """Where a value comes from."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = "file"
    MODELS_FILE = "models_file"


class Setting(BaseModel):
    """One setting as it holds now; of a secret nothing is shown but that it is set."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="the environment variable, or the place in the models file")
    value: str | None = Field(None, description="null: there is none, or it could not be read")
    origin: Origin = Origin.DEFAULT
    file: str | None = Field(None, description="the path, if the value is of a file")
    is_secret: bool = False
    is_set: bool = Field(False, description="of api_key_env: whether the variable that it names is set")
    programs: list[str] = Field(default_factory=list, description="that read it, of those asked for")
    note: str | None = None
    problem: str | None = Field(None, description="what the programs would refuse it for")


class ConfigDocument(BaseModel):
    """Every setting, in the order of the programs that read them."""

    model_config = ConfigDict(frozen=True)

    settings: list[Setting]
    problems: list[str] = Field(description="that belong to no single setting")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def exit_code(self) -> ExitCode:
        """Wrong settings if anything is wrong."""
        wrong = self.problems or any(setting.problem for setting in self.settings)
        return ExitCode.WRONG_SETTINGS if wrong else ExitCode.DONE
