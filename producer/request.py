"""The request that a row becomes: its fingerprint and its message, written in the JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as fn

from producer import columns as names
from producer.columns import column
from producer.settings import JobFile
from schemas import template
from schemas.fingerprint import DEFAULT_ALIAS
from schemas.message import VERSION
from schemas.shaping import PromptTemplate
from schemas.text import clean_json, clean_text, sorted_json

# Names of fields, the fingerprint and punctuation, with room to spare.
_NAMES_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the chat: its text if every row has the same, else the column that holds the row's."""

    role: str
    text: str | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What every message of a run shares."""

    job: str
    run: str
    published_at: datetime
    turns: tuple[Turn, ...]
    params: Mapping[str, Any]
    response_format: Mapping[str, Any] | None

    @staticmethod
    def of(file: JobFile, run: str, now: datetime) -> Request:
        """Take the constant parts from a job file, cleaned as the reader of the message cleans them."""
        job = file.job
        return Request(
            job=job.job,
            run=run,
            published_at=now,
            turns=tuple(_turns(file)),
            params=clean_json(job.params)[0],
            response_format=clean_json(dict(file.response_format))[0] if file.response_format else None,
        )

    @property
    def shared_text(self) -> str:
        """All text that is the same in every message."""
        return "".join(turn.text or "" for turn in self.turns)


def turn_columns(prompt: PromptTemplate) -> list[str]:
    """Name the columns that hold the filled templates of a row: the prompt itself if there is only one."""
    number = len(prompt.templates)
    return [names.PROMPT] if number == 1 else [names.turn(nth) for nth in range(number)]


def fingerprint(model: Column, request: Request) -> Column:
    """Compute `schemas.fingerprint.fingerprint` of each row."""
    digests = [fn.sha2(fn.coalesce(model, fn.lit(DEFAULT_ALIAS)), 256)]
    for turn in request.turns:
        digests.append(_digest(turn.role))
        digests.append(_digest(turn.text) if turn.text is not None else fn.sha2(column(turn.column or ""), 256))
    digests += [_digest(sorted_json(part or None)) for part in (request.params, request.response_format)]
    return fn.sha2(fn.concat_ws(":", *digests), 256)


def message(request: Request) -> Column:
    """Write the JSON of each row: constants as they stand, and a row's own fields by Spark's JSON writer."""
    own = [column(names.ID).alias("id"), column(names.MODEL).alias("model")]
    own.append(column(names.FINGERPRINT).alias("fingerprint"))
    if [turn.role for turn in request.turns] == ["user"]:
        return fn.concat(fn.lit(_head(request)), _fields([*own, column(names.PROMPT).alias("prompt")]))
    parts: list[Column] = []
    before = f'{_head(request)}"messages":['
    for turn in request.turns:
        if turn.text is not None:
            before += _json({"role": turn.role, "content": turn.text}) + ","
            continue
        opened = f'{before}{{"role":{_json(turn.role)},'
        parts += [fn.lit(opened), _fields([column(turn.column or "").alias("content")])]
        before = ","
    return fn.concat(*parts, fn.lit(f"{before.removesuffix(',')}],"), _fields(own))


def shared_bytes(request: Request) -> int:
    """Bound the bytes of a message besides its id, model and prompt."""
    shared = [{"role": turn.role, "content": turn.text} for turn in request.turns]
    return len(f"{_head(request)}{_json(shared)}".encode()) + _NAMES_BYTES


def _turns(file: JobFile) -> Iterator[Turn]:
    prompt = file.job.prompt
    filled = iter(turn_columns(prompt))
    if prompt.system:
        yield Turn("system", _literal(prompt.system))
    for example in file.examples:
        yield Turn("user", clean_text(example.user)[0])
        yield Turn("assistant", clean_text(example.assistant)[0])
    if prompt.template:
        yield Turn("user", column=next(filled))
    for said in prompt.messages:
        named = bool(template.columns(said.content))
        yield Turn(said.role, column=next(filled)) if named else Turn(said.role, _literal(said.content))


def _literal(text: str) -> str:
    parts = template.parse(clean_text(text)[0])
    return "".join(part.text for part in parts if isinstance(part, template.Literal))


def _head(request: Request) -> str:
    """Write the fields that every message shares, without the closing brace."""
    head: dict[str, Any] = {
        "v": VERSION,
        "job": request.job,
        "run": request.run,
        "published_at": request.published_at.astimezone(UTC).isoformat(timespec="milliseconds"),
    }
    if request.params:
        head["params"] = request.params
    if request.response_format:
        head["response_format"] = request.response_format
    return _json(head).removesuffix("}") + ","


def _fields(fields: list[Column]) -> Column:
    """Write fields as JSON, without the opening brace and without those that are null."""
    return fn.substr(fn.to_json(fn.struct(*fields)), fn.lit(2))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _digest(text: str) -> Column:
    return fn.lit(sha256(text.encode()).hexdigest())
