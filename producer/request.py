"""The request that a row becomes: its fingerprint and its message, written in the JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from schemas.text import clean_json, clean_text, sorted_json

# Names of fields, the fingerprint and punctuation, with room to spare.
_NAMES_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What every message of a run shares."""

    job: str
    run: str
    published_at: datetime
    system: str | None
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
            system=_literal(job.prompt.system) if job.prompt.system else None,
            params=clean_json(job.params)[0],
            response_format=clean_json(dict(file.response_format))[0] if file.response_format else None,
        )


def fingerprint(model: Column, prompt: Column, request: Request) -> Column:
    """Compute `schemas.fingerprint.fingerprint` of each row."""
    before = [] if request.system is None else [_digest("system"), _digest(request.system)]
    after = [_digest(sorted_json(part or None)) for part in (request.params, request.response_format)]
    digests = [
        fn.sha2(fn.coalesce(model, fn.lit(DEFAULT_ALIAS)), 256),
        *before,
        _digest("user"),
        fn.sha2(prompt, 256),
        *after,
    ]
    return fn.sha2(fn.concat_ws(":", *digests), 256)


def message(request: Request) -> Column:
    """Write the JSON of each row: constants as they stand, and a row's own fields by Spark's JSON writer."""
    own = [column(names.ID).alias("id"), column(names.MODEL).alias("model")]
    own.append(column(names.FINGERPRINT).alias("fingerprint"))
    prompt = column(names.PROMPT)
    if request.system is None:
        return fn.concat(fn.lit(_head(request)), _fields([*own, prompt.alias("prompt")]))
    system = _json({"role": "system", "content": request.system})
    return fn.concat(
        fn.lit(f'{_head(request)}"messages":[{system},{{"role":"user",'),
        _fields([prompt.alias("content")]),
        fn.lit("],"),
        _fields(own),
    )


def shared_bytes(request: Request) -> int:
    """Bound the bytes of a message besides its id, model and prompt."""
    return len(f"{_head(request)}{_json(request.system)}".encode()) + _NAMES_BYTES


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
