"""How many tokens a call will take, before it is made: learned from what the endpoint reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.tokens import BYTES_A_TOKEN, estimated_tokens

# No call takes more, whatever a message allows or a server says; sums of very many still fit a `bigint`.
MOST_TOKENS = 2**40
_COMPLETION_TOKENS = 256.0
_SMOOTHING = 0.05
# A reserve above the mean, so that few calls exceed theirs.
_SAFETY = 1.2


@dataclass(frozen=True, slots=True)
class Size:
    """What is known of a call beforehand: bytes of its messages, and the most tokens it allows the answer."""

    prompt_bytes: int
    most_completion: int | None = None

    @staticmethod
    def of(messages: tuple[Mapping[str, Any], ...], params: Mapping[str, Any]) -> Size:
        """Measure one request."""
        most = params.get("max_completion_tokens", params.get("max_tokens"))
        told = isinstance(most, int) and not isinstance(most, bool) and most >= 0
        bounded = min(most, MOST_TOKENS) if told else None
        return Size(sum(len(str(message.get("content", "")).encode()) for message in messages), bounded)


@dataclass(slots=True)
class Estimate:
    """What calls of one endpoint take, as learned so far."""

    bytes_a_token: float = BYTES_A_TOKEN
    completion: float = _COMPLETION_TOKENS
    _learned: bool = False

    def prompt_tokens(self, size: Size) -> int:
        """Tokens of the prompt."""
        return estimated_tokens(size.prompt_bytes, self.bytes_a_token)

    def completion_tokens(self, size: Size) -> int:
        """Tokens of the answer: the most that is allowed, else somewhat more than usual."""
        return round(self.completion * _SAFETY) if size.most_completion is None else size.most_completion

    def tokens(self, size: Size, caution: float = 0.0) -> int:
        """All tokens that a call is likely to take; with `caution` 1, all that it may take."""
        most = self.completion_tokens(size)
        likely = min(float(most), self.completion * _SAFETY)
        return self.prompt_tokens(size) + round(likely + caution * (most - likely))

    def learn(self, size: Size, prompt_tokens: int | None, completion_tokens: int | None) -> None:
        """Take in what an answer reports; unknown counts teach nothing."""
        share = _SMOOTHING if self._learned else 1.0
        if prompt_tokens and size.prompt_bytes:
            self.bytes_a_token += share * (size.prompt_bytes / prompt_tokens - self.bytes_a_token)
            self._learned = True
        if completion_tokens is not None:
            self.completion += share * (completion_tokens - self.completion)
