"""Small values of the worker, made in one line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from schemas.message import Prompt, decode
from schemas.statuses import Billed, Status
from worker.core.claims import Claim
from worker.core.offsets import Ticket
from worker.core.rows import AttemptRow, FinishedRow
from worker.ports import Record, Work

TOPIC = "headrace.prompts.reviews"
AN_INSTANT = datetime(2026, 1, 1, tzinfo=UTC)


def message(id_: str = "r-1", prompt: str = "Why?", **fields: Any) -> bytes:
    """The value of a message."""
    return json.dumps({"id": id_, "prompt": prompt, **fields}, ensure_ascii=False).encode()


def record(value: bytes | None = None, *, offset: int = 0, partition: int = 0, **fields: Any) -> Record:
    """A record of the prompts topic; its log is named by its partition unless told otherwise."""
    fields = {"key": None, "log": f"log/{partition}", "timestamp": AN_INSTANT, "topic": TOPIC, **fields}
    return Record(partition=partition, offset=offset, value=message() if value is None else value, **fields)


def prompt(id_: str = "r-1", text: str = "Why?", **fields: Any) -> Prompt:
    """A readable prompt."""
    read = decode(None, message(id_, text, **fields))
    assert isinstance(read, Prompt), read
    return read


def work(id_: str = "r-1", text: str = "Why?", *, offset: int = 0, log: str = "log/0", **fields: Any) -> Work:
    """A prompt on its way."""
    timestamp = fields.pop("timestamp", AN_INSTANT)
    read = prompt(id_, text, **fields)
    ticket = Ticket((TOPIC, 0), offset, 1)
    at = record(offset=offset, log=log, timestamp=timestamp)
    return Work(read, at, [ticket], read.model or "small")


def finished(of: Work, text: str | None = "yes", **fields: Any) -> FinishedRow:
    """The successful end of a claimed work, or another one by `fields`."""
    assert of.claim is not None
    values: dict[str, Any] = {
        "job": of.prompt.job,
        "id": of.prompt.id,
        "fence": of.claim.fence,
        "status": Status.SUCCEEDED,
        "reason": None,
        "result": text,
        "result_json": None,
        "sanitised": False,
        "finish_reason": "stop",
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "latency_ms": 120,
        "result_length": len(text or ""),
        "retry_count": 0,
        "error_msg": None,
        "model": of.alias,
        "model_answered": "served-1",
        "endpoint": "vllm-a:8000",
        "cost_usd": None,
    }
    return FinishedRow(**(values | fields))


def called(of: Work, attempt: int = 1, **fields: Any) -> AttemptRow:
    """The ledger line of a call of a claimed work."""
    claim = of.claim or Claim("new")  # type: ignore[arg-type]
    values: dict[str, Any] = {
        "job": of.prompt.job,
        "id": of.prompt.id,
        "attempt": attempt,
        "claimed_at": claim.claimed_at,
        "run": of.prompt.run,
        "outcome": "answered",
        "http_status": 200,
        "billed": Billed.YES,
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "latency_ms": 120,
        "cost_usd": None,
        "model": of.alias,
        "endpoint": "vllm-a:8000",
        "started_at": AN_INSTANT,
        "finished_at": AN_INSTANT,
        "detail": None,
    }
    return AttemptRow(**(values | fields))
