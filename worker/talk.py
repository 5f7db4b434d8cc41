"""Where one prompt stands between its claim and its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.message import Prompt
from worker.core.claims import Claim
from worker.core.retry import Spent
from worker.core.tokens import Size
from worker.ports import Work


@dataclass(slots=True)
class Talk:
    """Where one prompt stands: what has been said, and what it has used up."""

    work: Work
    prompt: Prompt
    claim: Claim
    alias: str
    model: str | None
    size: Size
    messages: Sequence[Mapping[str, Any]]
    attempt: int
    spent: Spent
    retries: int = 0
    repeated: bool = False
    failing_since: float | None = None
    failed_at: float | None = None
