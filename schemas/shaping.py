"""The parts of a job file that decide which rows are asked, and what: cleaning, language, rules, prompt, routes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from schemas import template

Text = Annotated[str, Field(min_length=1)]
# What Java's regular expressions call a script: `Han`, `Latin`, `OLD_ITALIC`.
_SCRIPT = re.compile(r"[A-Za-z][A-Za-z_]*")


class Part(BaseModel):
    """A part of a job file: frozen, and unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Clean(Part):
    """What is done to the text columns before the prompt is made."""

    columns: list[Text] = Field(default_factory=list)
    strip_html: bool = False
    strip_control: bool = Field(
        False, description="removes control characters; line feed, carriage return and tab stay"
    )
    collapse_whitespace: bool = False
    normalize: Literal["NFC", "NFD", "NFKC", "NFKD"] | None = None
    min_chars: int = Field(1, ge=0)
    max_chars: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(
        None, ge=1, description="by the estimate that workers begin with: 1 + UTF-8 bytes / 4"
    )
    on_overlong: Literal["truncate", "reject"] = "truncate"

    @model_validator(mode="after")
    def _bounds_agree(self) -> Clean:
        if self.max_chars is not None and self.max_chars < self.min_chars:
            raise ValueError("max_chars is below min_chars")
        return self

    @property
    def has_limit(self) -> bool:
        """Whether text can be too long."""
        return self.max_chars is not None or self.max_tokens is not None


class Language(Part):
    """Which rows are in a wanted language, without a model: by a column, or by the script of the text."""

    column: Text | None = Field(None, description="says each row's language; needs `keep`")
    keep: list[Text] = Field(default_factory=list, description="values of `column`, whatever their case")
    scripts: list[str] = Field(default_factory=list, description="Unicode scripts, as Han or Latin")
    min_share: float = Field(0.5, gt=0, le=1, description="of the letters of the prompt's columns, in `scripts`")

    @field_validator("scripts")
    @classmethod
    def _are_names(cls, value: list[str]) -> list[str]:
        for script in value:
            if not _SCRIPT.fullmatch(script):
                raise ValueError(f"{script!r} is no name of a script, as Han, Latin, Cyrillic or Arabic are")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> Language:
        if (self.column is None) != (not self.keep):
            raise ValueError("column and keep go together")
        if self.column is None and not self.scripts:
            raise ValueError("needs a column with keep, or scripts, or both")
        if "min_share" in self.model_fields_set and not self.scripts:
            raise ValueError("min_share says nothing without scripts")
        return self


class Rule(Part):
    """One rule of the engine that comes before the model; without `when` it takes every row."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    when: Text | None = Field(None, description="SQL condition over the source columns and prompt_chars")
    send: bool = Field(True, description="whether its rows go to the model; else they are rejected")


class ChatMessage(Part):
    """One message of a chat; columns of a row stand in user messages alone, so that its text gives no orders."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text = Field(description="a template; of a user message it may name columns")

    @field_validator("content")
    @classmethod
    def _parses(cls, value: str) -> str:
        template.columns(value)
        if not value.strip():
            raise ValueError("is blank")
        return value

    @model_validator(mode="after")
    def _keeps_data_apart(self) -> ChatMessage:
        if self.role != "user" and (named := template.columns(self.content)):
            raise ValueError(
                f"names {{{min(named)}}}: columns belong in user messages; write {{{{ and }}}} for literal braces"
            )
        return self


class PromptTemplate(Part):
    """How a row becomes a request: by a template, with system text and examples before it, or by a whole chat."""

    system: Text | None = None
    examples: Path | None = Field(
        None, description="JSON lines of user and assistant, sent between system and template"
    )
    template: Text | None = None
    messages: list[ChatMessage] = Field(default_factory=list, description="instead of template, system and examples")
    fence: list[Text] = Field(
        default_factory=list, description="columns whose text stands between tags that no text can forge"
    )

    @field_validator("template")
    @classmethod
    def _parses(cls, value: str | None) -> str | None:
        return None if value is None else _names_a_column(value)

    @model_validator(mode="after")
    def _is_one_of_two(self) -> PromptTemplate:
        if (self.template is None) == (not self.messages):
            raise ValueError("needs a template or messages, one of the two")
        if self.messages and (self.system or self.examples):
            raise ValueError("system and examples are messages of their own where there are messages")
        if not self.columns:
            raise ValueError("messages: none names a {column}, so every row would ask the same")
        if unknown := sorted(set(self.fence) - self.columns):
            raise ValueError(f"fence: {unknown[0]} is in no template")
        return self

    @property
    def columns(self) -> set[str]:
        """The columns that a row's request is made of."""
        return set().union(*map(template.columns, self.templates))

    @property
    def templates(self) -> list[str]:
        """The templates that are filled for each row, in the order of their messages."""
        whole = [self.template] if self.template else [message.content for message in self.messages]
        return [text for text in whole if template.columns(text)]


class Escalation(Part):
    """A second, stronger model for rows that the first one failed; they ask it in the next run of the producer."""

    model: Text
    after: list[
        Literal[
            "truncated",
            "filtered",
            "refused",
            "too_long",
            "invalid_output",
            "malformed_response",
            "rejected_request",
        ]
    ] = Field(["invalid_output", "truncated", "refused"], min_length=1, description="reasons of failed results")


class Route(Part):
    """One line of the routing table; without `when` it takes every row."""

    when: Text | None = Field(None, description="SQL condition over the source columns, prompt_chars and rule")
    model: Text
    template: Text | None = Field(
        None, description="for the rows of this route; names the columns of prompt.template"
    )
    escalate: Escalation | None = Field(None, description="the model for rows that this one failed")

    @field_validator("template")
    @classmethod
    def _parses(cls, value: str | None) -> str | None:
        return None if value is None else _names_a_column(value)

    @model_validator(mode="after")
    def _goes_on_to_another(self) -> Route:
        if self.escalate and self.escalate.model == self.model:
            raise ValueError("escalate.model: is the route's own model; name a stronger one")
        return self


def _names_a_column(value: str) -> str:
    if not template.columns(value):
        raise ValueError("names no {column}, so every row would ask the same")
    return value
