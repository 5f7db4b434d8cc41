"""The job file: one run over one table, as its author writes it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from schemas import template, topics
from schemas.ids import WrittenId
from schemas.shaping import Clean, Language, Part, PromptTemplate, Route, Rule, Text
from schemas.text import is_json

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(value: object) -> object:
    """Read `90s`, `30m`, `12h` or `2d`; anything else is left to pydantic."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        try:
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
        except OverflowError:
            raise ValueError("is longer than anybody can wait") from None
    return value


Duration = Annotated[timedelta, BeforeValidator(duration, json_schema_input_type=str), Field(gt=timedelta())]


class Source(Part):
    """The table to read: by path, by name, or by the options of its format."""

    format: Literal["parquet", "csv", "json", "jsonl", "delta", "iceberg", "jdbc", "table"]
    path: Text | None = None
    table: Text | None = None
    query: Text | None = Field(None, description="of format table: SQL over the tables that Spark knows")
    where: Text | None = Field(None, description="SQL condition over the source columns")
    encoding: str | None = Field(None, description="of csv and jsonl files; UTF-8 if absent")
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_named(self) -> Source:
        by_path = self.format in {"parquet", "csv", "json", "jsonl", "delta"}
        if by_path and not self.path:
            raise ValueError(f"format {self.format} needs a path")
        if self.format == "table" and bool(self.table) == bool(self.query):
            raise ValueError("format table needs a table or a query, one of the two")
        if self.format == "iceberg" and not self.table:
            raise ValueError("format iceberg needs a table")
        return self


class Output(Part):
    """What the answer must look like."""

    json_schema: Path | None = None


class Budget(Part):
    """What one run may spend."""

    usd: float | None = Field(None, gt=0)
    tokens: int | None = Field(None, gt=0)


class Canary(Part):
    """The rows that go first, and what stops the rest."""

    rows: int = Field(200, ge=1)
    max_failed: float = Field(0.05, ge=0, le=1)
    timeout_s: float = Field(600, gt=0)


class Target(Part):
    """The table that the answers are joined into."""

    format: Literal["delta", "iceberg", "parquet"]
    path: Text | None = None
    table: Text | None = None
    partition_by: list[Text] = Field(default_factory=list)
    beside: Text | None = Field(
        None,
        description="path that the folders <beside>_requests and <beside>_rejects are named after; path if absent",
    )

    @model_validator(mode="after")
    def _is_named(self) -> Target:
        if self.format == "iceberg" and not self.table:
            raise ValueError("format iceberg needs a table")
        if self.format != "iceberg" and not self.path:
            raise ValueError(f"format {self.format} needs a path")
        return self

    @property
    def base(self) -> str:
        """The path that what stands beside the table is named after."""
        return self.beside or self.path or self.table or ""


class Job(Part):
    """A whole job file."""

    job: Name = Field(description="the namespace of ids")
    topic: str | None = Field(None, description="headrace.prompts.<job> if absent")
    source: Source
    id: WrittenId = Field(description="a column with a stable, unique id, or the columns to derive one from")
    clean: Clean = Clean()
    language: Language | None = Field(None, description="rows of other languages are rejected")
    rules: list[Rule] = Field(
        default_factory=list, description="the first that holds decides; a row that none takes is rejected"
    )
    prompt: PromptTemplate
    routes: list[Route] = Field(default_factory=list)
    params: dict[str, Any] = Field(default_factory=dict)
    output: Output = Output()
    dedup: bool = True
    incremental: bool = True
    lane: Literal["realtime", "batch", "auto"] = "realtime"
    deadline: Duration | None = None
    priority: int = Field(
        0, ge=-100, le=100, description="one more is twice the share of the fleet, between -5 and 5; none starves"
    )
    mode: Literal["kafka", "direct"] = "kafka"
    budget: Budget = Budget()
    canary: Canary = Canary()
    target: Target

    @field_validator("topic")
    @classmethod
    def _is_legal(cls, value: str | None) -> str | None:
        if value is not None and not topics.is_legal(value):
            raise ValueError("is no legal topic name")
        return value

    @field_validator("params")
    @classmethod
    def _are_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not is_json(value):
            raise ValueError("must be JSON: text, finite numbers, true, false, null, lists and names; quote a date")
        return value

    @field_validator("rules", "routes")
    @classmethod
    def _only_the_last_takes_all(cls, value: list[Any]) -> list[Any]:
        if any(line.when is None for line in value[:-1]):
            raise ValueError("only the last may leave out `when`; those after it would never be reached")
        return value

    @field_validator("rules")
    @classmethod
    def _have_names_of_their_own(cls, value: list[Rule]) -> list[Rule]:
        if len({rule.name for rule in value}) < len(value):
            raise ValueError("two rules have one name")
        return value

    @model_validator(mode="after")
    def _routes_ask_with_the_same_columns(self) -> Job:
        wanted = self.prompt.columns
        for number, route in enumerate(self.routes):
            if route.template is None:
                continue
            if self.prompt.messages:
                raise ValueError(f"routes.{number}.template: says nothing beside prompt.messages; leave it out")
            if template.columns(route.template) != wanted:
                raise ValueError(
                    f"routes.{number}.template must name the columns of prompt.template, all and no other"
                )
        return self

    @model_validator(mode="after")
    def _escalation_has_a_past(self) -> Job:
        if self.escalates and not self.incremental:
            raise ValueError("escalate looks at earlier results: it needs incremental: true")
        return self

    @model_validator(mode="after")
    def _lane_has_its_deadline(self) -> Job:
        if (self.lane == "auto") != (self.deadline is not None):
            raise ValueError("lane auto and deadline go together")
        return self

    @property
    def escalates(self) -> bool:
        """Whether any row may go on to a second model."""
        return any(route.escalate for route in self.routes)

    @property
    def aliases(self) -> list[tuple[str, str]]:
        """Every model that the file names, with its place."""
        named = [(f"routes.{number}.model", route.model) for number, route in enumerate(self.routes)]
        seconds = [
            (f"routes.{number}.escalate.model", route.escalate.model)
            for number, route in enumerate(self.routes)
            if route.escalate
        ]
        return named + seconds

    @property
    def prompts_topic(self) -> str:
        """The topic this job publishes to."""
        return self.topic or topics.prompts_topic(self.job)
