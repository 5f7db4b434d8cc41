"""What counts as an answer: tolerant where servers differ, strict about success."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.statuses import Billed, Reason
from schemas.text import clean_text
from worker.core.bodies import content_text
from worker.core.outcome import Answer, Kind, Outcome
from worker.core.tokens import MOST_TOKENS

_LENGTH = frozenset({"length", "max_tokens"})
_FILTER = frozenset({"content_filter", "safety"})


def read_answer(content: Any, status: int) -> Outcome:
    """Read a completion; anything without a choice that holds a message is malformed and may have been billed."""
    choice = _choice(content)
    message = choice.get("message")
    if not isinstance(message, dict):
        return Outcome(Kind.MALFORMED, Reason.MALFORMED_RESPONSE, Billed.MAYBE, status)
    text, sanitised = clean_text(content_text(message.get("content")))
    usage = content.get("usage")
    answer = Answer(
        text=text,
        finish_reason=_word(choice.get("finish_reason")),
        model=_word(content.get("model")),
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        sanitised=sanitised,
    )
    reason = _shortfall(answer, message)
    return Outcome(Kind.UNFIT if reason else Kind.ANSWERED, reason, Billed.YES, status, answer)


def _shortfall(answer: Answer, message: Mapping[str, Any]) -> Reason | None:
    if answer.finish_reason in _FILTER:
        return Reason.FILTERED
    if message.get("refusal"):
        return Reason.REFUSED
    if answer.finish_reason in _LENGTH:
        return Reason.TRUNCATED
    # Nothing but thoughts, or a tool call nobody asked for: paid, but no answer.
    return None if answer.text.strip() else Reason.INVALID_OUTPUT


def _choice(content: Any) -> Mapping[str, Any]:
    choices = content.get("choices") if isinstance(content, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(value, str) and value.isdigit() and value.isascii():
        value = int(value[:20])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS else None


def _word(value: Any) -> str | None:
    return clean_text(value)[0][:200] if isinstance(value, str) and value else None
