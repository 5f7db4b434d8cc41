"""The legal ends of a prompt and the ledger line of a call; status words have no other source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from schemas.message import Prompt
from schemas.models import Price
from schemas.statuses import Billed, Reason, Status
from worker.core.amounts import Amount
from worker.core.claims import Claim
from worker.core.outcome import Answer, Outcome


@dataclass(frozen=True, slots=True)
class Call:
    """Where and when one call of a row went; `most` is what it may have taken, where it does not say what it took."""

    attempt: int
    alias: str
    endpoint: str
    started_at: datetime
    finished_at: datetime
    latency_ms: int
    price: Price | None = None
    most: Amount | None = None


@dataclass(frozen=True, slots=True, repr=False)
class FinishedRow:
    """What `results` gets when a prompt ends; the store adds the worker's name and the time."""

    job: str
    id: str
    fence: int
    status: Status
    reason: Reason | None
    result: str | None
    result_json: Any
    sanitised: bool
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    latency_ms: int | None
    result_length: int | None
    retry_count: int
    error_msg: str | None
    model: str
    model_answered: str | None
    endpoint: str | None
    cost_usd: Decimal | None

    def stripped(self, message: str) -> FinishedRow:
        """The same end without its content, for a store that refuses the content: the bill stays."""
        return replace(
            self,
            status=Status.FAILED,
            reason=self.reason or Reason.MALFORMED_RESPONSE,
            result=None,
            result_json=None,
            finish_reason=None,
            model_answered=None,
            error_msg=message,
        )


@dataclass(frozen=True, slots=True, repr=False)
class AttemptRow:
    """What `attempts` gets for one call that left the worker."""

    job: str
    id: str
    attempt: int
    claimed_at: datetime | None
    run: str | None
    outcome: str
    http_status: int | None
    billed: Billed
    prompt_tokens: int | None
    completion_tokens: int | None
    latency_ms: int
    cost_usd: Decimal | None
    model: str
    endpoint: str
    started_at: datetime
    finished_at: datetime
    detail: str | None
    cost_bound_usd: Decimal | None = None
    tokens_bound: int | None = None


def ended(
    prompt: Prompt, claim: Claim, call: Call, outcome: Outcome, *, reason: Reason | None, retries: int
) -> FinishedRow:
    """End a prompt: without a reason it has succeeded; with one it has failed, and what text there is is kept."""
    answer = outcome.answer
    return FinishedRow(
        job=prompt.job,
        id=prompt.id,
        fence=claim.fence,
        status=Status.FAILED if reason else Status.SUCCEEDED,
        reason=reason,
        result=answer.text if answer else None,
        result_json=answer.value if answer else None,
        sanitised=prompt.sanitised or bool(answer and answer.sanitised),
        finish_reason=answer.finish_reason if answer else None,
        prompt_tokens=answer.prompt_tokens if answer else None,
        completion_tokens=answer.completion_tokens if answer else None,
        latency_ms=call.latency_ms,
        result_length=len(answer.text) if answer else None,
        retry_count=retries,
        error_msg=outcome.message if reason else None,
        model=call.alias,
        model_answered=answer.model if answer else None,
        endpoint=call.endpoint,
        cost_usd=cost(answer, call.price),
    )


def cancelled(prompt: Prompt, claim: Claim, alias: str, *, retries: int = 0) -> FinishedRow:
    """Build the end of a prompt whose run was cancelled before its next call."""
    nothing: dict[str, Any] = dict.fromkeys(
        "result result_json finish_reason prompt_tokens completion_tokens latency_ms result_length model_answered "
        "endpoint cost_usd".split()
    )
    return FinishedRow(
        job=prompt.job,
        id=prompt.id,
        fence=claim.fence,
        status=Status.FAILED,
        reason=Reason.CANCELLED,
        sanitised=prompt.sanitised,
        retry_count=retries,
        error_msg="its run was cancelled",
        model=alias,
        **nothing,
    )


def ledger_line(prompt: Prompt, claim: Claim, call: Call, outcome: Outcome) -> AttemptRow:
    """Record one call, whatever came of it."""
    answer = outcome.answer
    return AttemptRow(
        job=prompt.job,
        id=prompt.id,
        attempt=call.attempt,
        claimed_at=claim.claimed_at,
        run=prompt.run,
        outcome=outcome.kind,
        http_status=outcome.status,
        billed=outcome.billed,
        prompt_tokens=answer.prompt_tokens if answer else None,
        completion_tokens=answer.completion_tokens if answer else None,
        latency_ms=call.latency_ms,
        cost_usd=cost(answer, call.price),
        model=call.alias,
        endpoint=call.endpoint,
        started_at=call.started_at,
        finished_at=call.finished_at,
        detail=": ".join(part for part in (outcome.code, outcome.detail) if part) or None,
        cost_bound_usd=call.most.usd if call.most and call.price else None,
        tokens_bound=call.most.tokens if call.most else None,
    )


def cost(answer: Answer | None, price: Price | None) -> Decimal | None:
    """Price an answer in USD; None when the price or a token count is unknown."""
    if price is None or answer is None or answer.prompt_tokens is None or answer.completion_tokens is None:
        return None
    return price.cost(answer.prompt_tokens, answer.completion_tokens)
