"""What rows will take, from those that were tried or from the size of their prompts. Pure arithmetic.

Rows are tried by tier, a random few of each, so a total is the sum over the tiers of rows left times mean, with a
95 % interval: how far it may be off follows from how much the tried rows of a tier differ, by Student's t with the
degrees of freedom that Welch and Satterthwaite give such a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, variance
from typing import Any

from schemas.bills import Earlier
from schemas.models import Price
from schemas.tokens import BYTES_A_TOKEN

CONFIDENCE = 0.95
# How few and how many bytes of UTF-8 a token has, by most tokenizers and scripts.
FEWEST_BYTES, MOST_BYTES = 2.5, 5.0
# Tokens of an answer whose length nothing bounds.
_USUAL_ANSWER = 256.0
# Of fewer than two rows nobody can say how much they differ.
_FEWEST = 2
# Student's t at the same confidence where the expansion below is not good enough.
_FEW_DEGREES = {1: 12.706, 2: 4.303}


@dataclass(frozen=True, slots=True)
class Range:
    """A total and the interval that holds it; without `high` nobody knows an upper end."""

    low: float
    point: float
    high: float | None

    def __add__(self, other: Range) -> Range:
        high = None if self.high is None or other.high is None else self.high + other.high
        return Range(self.low + other.low, self.point + other.point, high)

    def told(self, places: int) -> dict[str, float | None]:
        """Write it for the last line, rounded."""
        numbers = {"low": self.low, "point": self.point, "high": self.high}
        return {name: None if number is None else round(number, places or None) for name, number in numbers.items()}

    def text(self, places: int, confidence: float | None = CONFIDENCE) -> str:
        """Write it for people; without a confidence its ends are bounds."""
        high = "unknown" if self.high is None else f"{self.high:,.{places}f}"
        sure = "bounds" if confidence is None else f"{confidence:.0%}"
        return f"{self.point:,.{places}f} ({sure}: {self.low:,.{places}f} to {high})"


NOTHING = Range(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Tier:
    """Rows that are alike: how many are left, and what each of the tried ones took; None is unknown."""

    left: int
    took: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the rows that are left will take; None is unknown. `basis` says what that rests on.

    `confidence` is that of the intervals; None: their ends are bounds, and how likely they are nobody knows.
    """

    rows: int
    basis: str
    usd: Range | None = None
    tokens: Range | None = None
    seconds: float | None = None
    confidence: float | None = CONFIDENCE

    def text(self) -> str:
        """Write it for people."""
        if not self.rows:
            return "Nothing is left to publish"
        told = [f"{self.rows:,} rows are left, by {self.basis}"]
        told += [f"cost in USD {self.usd.text(4, self.confidence)}"] if self.usd else ["cost unknown: no price"]
        told += [f"tokens {self.tokens.text(0, self.confidence)}"] if self.tokens else []
        told += [f"about {self.seconds:,.0f} s at the canary's pace"] if self.seconds else []
        return "; ".join(told)

    def told(self) -> dict[str, object]:
        """Write it for the last line."""
        return {
            "rows": self.rows,
            "usd": self.usd and self.usd.told(6),
            "tokens": self.tokens and self.tokens.told(0),
            "seconds": None if self.seconds is None else round(self.seconds),
            "basis": self.basis,
            "confidence": self.confidence,
        }


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of one model: how many, their bytes of UTF-8 together, and the model's price, None if unknown."""

    rows: int
    size: int
    price: Price | None = None


def total(tiers: Iterable[Tier]) -> Range | None:
    """Estimate what all rows that are left will take; None where what a tried row took is unknown, or none was tried.

    With a single tried row in a tier that has rows left there is a point and no upper end.
    """
    wanted = [tier for tier in tiers if tier.left]
    samples = [[took for took in tier.took if took is not None] for tier in wanted]
    if any(not known or len(known) < len(tier.took) for known, tier in zip(samples, wanted, strict=True)):
        return None
    point = sum(tier.left * fmean(known) for tier, known in zip(wanted, samples, strict=True))
    if any(len(known) < _FEWEST for known in samples):
        return Range(0.0, point, None)
    spread = [_variance(tier.left, known) for tier, known in zip(wanted, samples, strict=True)]
    if not (whole := sum(spread)):
        return Range(point, point, point)
    degrees = 1 / sum((one / whole) ** 2 / (len(known) - 1) for one, known in zip(spread, samples, strict=True))
    off = student_t(degrees) * sqrt(whole)
    return Range(max(0.0, point - off), point, point + off)


def from_earlier(rows: int, earlier: Sequence[Earlier], price: Callable[[str | None], Price | None]) -> Forecast:
    """Estimate so many rows from a fair sample of earlier ones, at the present price of each one's model.

    Where a model has no price, what its calls cost at their time counts.
    """
    return Forecast(
        rows=rows,
        basis=f"{len(earlier)} earlier results of this job",
        usd=total([Tier(rows, [row.cost(price(row.model)) for row in earlier])]),
        tokens=total([Tier(rows, [row.tokens for row in earlier])]),
    )


def max_tokens(params: Mapping[str, Any]) -> int | None:
    """Read from a request's parameters how long an answer may be; None if they do not say."""
    most = params.get("max_completion_tokens", params.get("max_tokens"))
    return most if isinstance(most, int) and not isinstance(most, bool) else None


def from_size(prompts: Sequence[Prompts], longest: int | None) -> Forecast:
    """Guess from the size of the prompts, where nothing was tried: bounds by experience alone.

    A token is 2.5 to 5 bytes, by most tokenizers and scripts; an answer has up to `longest` tokens, the point half of
    it. The cost is unknown while any of these models has no price.
    """
    usual = _USUAL_ANSWER if longest is None else longest / 2
    tokens, usd = NOTHING, NOTHING
    for part in prompts:
        low, point = (part.size / MOST_BYTES, 0.0), (part.size / BYTES_A_TOKEN, part.rows * usual)
        high = None if longest is None else (part.size / FEWEST_BYTES, float(part.rows * longest))
        tokens += Range(sum(low), sum(point), None if high is None else sum(high))
        if part.price:
            usd += Range(_usd(part.price, low), _usd(part.price, point), high and _usd(part.price, high))
    priced = all(part.price for part in prompts if part.rows)
    basis = "the size of the prompts alone, which is a guess: no row was asked before"
    rows = sum(part.rows for part in prompts)
    return Forecast(rows, basis, usd=usd if priced else None, tokens=tokens, confidence=None)


def _usd(price: Price, tokens: tuple[float, float]) -> float:
    each = float(price.input_per_million), float(price.output_per_million)
    return (each[0] * tokens[0] + each[1] * tokens[1]) / 1_000_000


def _variance(left: int, tried: Sequence[float]) -> float:
    """Variance of the error: rows left differ from each other, and the mean of the tried ones is off itself."""
    return left * (left + len(tried)) / len(tried) * variance(tried)


def student_t(degrees: float) -> float:
    """Give the half-width of the 95 % interval in standard errors; exact to a few in a thousand, for any degrees."""
    if degrees < 3:
        return _FEW_DEGREES[max(1, int(degrees))]
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    # Fisher's expansion of Student's t in powers of one over the degrees of freedom.
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))
