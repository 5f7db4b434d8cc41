"""Every way a call can end, as one value; nothing beyond `core` knows an HTTP status."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from schemas.statuses import Billed, Reason


class Kind(StrEnum):
    """What a call's end means for the row and for the endpoint; also the label in metrics and ledger."""

    ANSWERED = "answered"
    # The endpoint answered and the row is final without being a success.
    UNFIT = "unfit"
    REJECTED = "rejected"
    # The endpoint refuses this call only because of its own state.
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    TROUBLE = "trouble"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    # Nothing about this row: key, model, quota or parameters of the whole run.
    RUN_FAULT = "run_fault"
    # We left before the answer came.
    ABANDONED = "abandoned"


# While only these come back, the endpoint answers nobody.
OUTAGE_KINDS = frozenset({Kind.RATE_LIMITED, Kind.UNAVAILABLE, Kind.TROUBLE, Kind.CONNECTION, Kind.TIMEOUT})


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """What the model said and what it reports of itself; unknown token counts are None, never 0."""

    text: str
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    sanitised: bool = False
    value: Any = None


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """The end of one call.

    `reason` is how the row ends if this is the last word (None for success); `retry_after` is in seconds;
    `code` is the server's own error code, cut to a safe alphabet; `detail` is its free text, for the ledger only.
    """

    kind: Kind
    reason: Reason | None = None
    billed: Billed = Billed.NO
    status: int | None = None
    answer: Answer | None = None
    retry_after: float | None = None
    code: str = ""
    detail: str = ""

    def __repr__(self) -> str:
        return f"Outcome({self.kind}, {self.reason}, status={self.status}, code={self.code!r})"

    @property
    def tells_tokens(self) -> bool:
        """Whether the call says what it used, or is known to have used nothing."""
        answer = self.answer
        if answer is None:
            return self.billed is Billed.NO
        return answer.prompt_tokens is not None and answer.completion_tokens is not None

    @property
    def message(self) -> str:
        """Our own words for the row: kind, status and code; never a prompt, an answer or the server's text."""
        parts = [str(self.kind.value), f"status {self.status}" if self.status else "", self.code]
        return ", ".join(part for part in parts if part)
