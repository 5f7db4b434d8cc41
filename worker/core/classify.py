"""From an HTTP answer, or a call without one, to an outcome: the only place that knows statuses and error codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from schemas.statuses import Billed, Reason
from schemas.text import clean_text
from worker.core.answers import read_answer
from worker.core.bodies import parse
from worker.core.outcome import Kind, Outcome
from worker.core.reply import Break, Broken, Reply
from worker.core.waits import retry_after

DETAIL_CHARS = 2000
_STATUS = re.compile(r"[345][0-9][0-9]")
_SAFE_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_STATUSES = {
    **dict.fromkeys(range(500, 600), (Kind.TROUBLE, Reason.SERVER_ERROR)),
    **dict.fromkeys((408, 409, 425), (Kind.TROUBLE, Reason.SERVER_ERROR)),
    **dict.fromkeys((503, 504), (Kind.UNAVAILABLE, Reason.SERVER_ERROR)),
    429: (Kind.RATE_LIMITED, Reason.RATE_LIMITED),
    **dict.fromkeys((401, 403), (Kind.RUN_FAULT, Reason.AUTH)),
    402: (Kind.RUN_FAULT, Reason.QUOTA),
    # No such path or model, or a redirect, which is never followed since the key would travel with it:
    # the base URL or the alias is wrong for every row.
    **dict.fromkeys((404, 405, *range(300, 400)), (Kind.RUN_FAULT, Reason.REJECTED_REQUEST)),
}
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "quota_exceeded"})
_RUN_FAULT_CODES = {
    "invalid_api_key": Reason.AUTH,
    "model_not_found": Reason.REJECTED_REQUEST,
    "unsupported_parameter": Reason.REJECTED_REQUEST,
    "unsupported_value": Reason.REJECTED_REQUEST,
    "unknown_parameter": Reason.REJECTED_REQUEST,
    **dict.fromkeys(_QUOTA_CODES, Reason.QUOTA),
}
# About this row alone, whatever the status: a gateway may give a filtered prompt a 403, or wrap it in a 200.
_ROW_CODES = {
    **dict.fromkeys(("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"), Reason.FILTERED),
    **dict.fromkeys(("context_length_exceeded", "string_above_max_length"), Reason.TOO_LONG),
}
# Servers without codes say it in words only.
_TOO_LONG_WORDS = re.compile(
    r"context (length|window|size)|too many tokens|prompt is too long|maximum.{0,20}tokens", re.I
)
_MAYBE_BILLED = frozenset({504, 524})

_BROKEN = {
    Break.NOT_SENT: (Kind.CONNECTION, Reason.CONNECTION, Billed.NO),
    Break.CONNECTION: (Kind.CONNECTION, Reason.CONNECTION, Billed.MAYBE),
    Break.TIMEOUT: (Kind.TIMEOUT, Reason.TIMEOUT, Billed.MAYBE),
    Break.OVERSIZE: (Kind.MALFORMED, Reason.MALFORMED_RESPONSE, Billed.MAYBE),
    Break.ENCODING: (Kind.MALFORMED, Reason.MALFORMED_RESPONSE, Billed.MAYBE),
}


def classify(reply: Reply | Broken, now: float) -> Outcome:
    """Turn what came back into an outcome; `now` is Unix time, for dates in Retry-After."""
    if isinstance(reply, Broken):
        kind, reason, billed = _BROKEN[reply.how]
        return Outcome(kind, reason, billed, code=reply.what)
    content = parse(reply.body, reply.headers.get("content-type", ""))
    if 200 <= reply.status < 300:
        return _success(reply, content, now)
    return _failure(reply.status, _error_of(content), reply, now)


def _success(reply: Reply, content: Any, now: float) -> Outcome:
    if isinstance(content, dict) and content.get("error") and not content.get("choices"):
        error = _error_of(content)
        return _failure(_status_inside(error), error, reply, now)
    outcome = read_answer(content, reply.status)
    if outcome.kind is Kind.ANSWERED:
        return outcome
    return _with_detail(outcome, reply)


def _with_detail(outcome: Outcome, reply: Reply) -> Outcome:
    detail = clean_text(reply.body[: 4 * DETAIL_CHARS].decode("utf8", "replace"))[0][:DETAIL_CHARS]
    return Outcome(
        outcome.kind, outcome.reason, outcome.billed, reply.status, outcome.answer, code=outcome.code, detail=detail
    )


def _failure(status: int, error: Mapping[str, Any], reply: Reply, now: float) -> Outcome:
    kind, reason = _verdict(status, error)
    return Outcome(
        kind,
        reason,
        Billed.MAYBE if status in _MAYBE_BILLED else Billed.NO,
        status,
        retry_after=retry_after(reply.headers, now),
        code=_code(error),
        detail=clean_text(str(error.get("message") or ""))[0][:DETAIL_CHARS],
    )


def _verdict(status: int, error: Mapping[str, Any]) -> tuple[Kind, Reason]:
    codes = _codes(error)
    for kind, meanings in ((Kind.REJECTED, _ROW_CODES), (Kind.RUN_FAULT, _RUN_FAULT_CODES)):
        if known := [meanings[code] for code in codes if code in meanings]:
            return kind, known[0]
    if status in _STATUSES:
        return _STATUSES[status]
    too_long = status == 413 or _TOO_LONG_WORDS.search(str(error.get("message") or ""))
    return Kind.REJECTED, Reason.TOO_LONG if too_long else Reason.REJECTED_REQUEST


def _error_of(content: Any) -> Mapping[str, Any]:
    """Find the error object: `{"error": {...}}`, `{"error": "text"}`, or an object that is itself the error."""
    if not isinstance(content, dict):
        return {}
    error = content.get("error", content)
    if isinstance(error, dict):
        return error
    return {} if error is None else {"message": str(error)}


def _status_inside(error: Mapping[str, Any]) -> int:
    for name in ("code", "status", "status_code"):
        if _STATUS.fullmatch(text := str(error.get(name))):
            return int(text)
    return 500


def _codes(error: Mapping[str, Any]) -> list[str]:
    inner = error.get("innererror")
    values = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    return [value for value in values if isinstance(value, str)]


def _code(error: Mapping[str, Any]) -> str:
    named = (str(error.get(name) or "") for name in ("code", "type", "param"))
    return " ".join(text for text in named if _SAFE_CODE.fullmatch(text))
