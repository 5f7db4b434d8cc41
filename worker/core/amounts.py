"""Money and tokens, and what a call may take of both."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from schemas.models import Price
from worker.core.tokens import Estimate, Size

_PLACES = 12


# Not frozen, as each call makes a dozen and a frozen one takes three times as long; nobody changes one.
@dataclass(slots=True, unsafe_hash=True)
class Amount:
    """Money and tokens."""

    usd: Decimal = Decimal(0)
    tokens: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.usd - other.usd, self.tokens - other.tokens)

    def covers(self, other: Amount) -> bool:
        """Whether this is enough for the other, in money and in tokens."""
        return self.usd >= other.usd and self.tokens >= other.tokens

    def or_more(self, other: Amount) -> Amount:
        """The larger in each."""
        return Amount(max(self.usd, other.usd), max(self.tokens, other.tokens))

    def or_less(self, other: Amount) -> Amount:
        """The smaller in each."""
        return Amount(min(self.usd, other.usd), min(self.tokens, other.tokens))

    def times(self, factor: float) -> Amount:
        """About so many times this."""
        return Amount(round(self.usd * Decimal(factor), _PLACES), round(self.tokens * factor))


NOTHING = Amount()


class Bound(NamedTuple):
    """The most that a call may have cost and used; None where nobody can tell."""

    usd: Decimal | None = None
    tokens: int | None = None


def at_most(price: Price | None, estimate: Estimate, size: Size) -> Amount:
    """Give what a call may take, before it is made; without a price it takes tokens only."""
    prompt, completion = estimate.prompt_tokens(size), estimate.completion_tokens(size)
    return Amount(price.cost(prompt, completion) if price else Decimal(0), prompt + completion)
