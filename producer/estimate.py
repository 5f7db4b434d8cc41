"""What the rows that are left will take, from those that were tried: totals with a 95 % interval. Pure arithmetic.

Rows are tried by tier, a random few of each, so a total is the sum over the tiers of rows left times mean. How far it
may be off follows from how much the tried rows of a tier differ, by Student's t with the degrees of freedom that
Welch and Satterthwaite give such a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, variance

CONFIDENCE = 0.95
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

    def text(self, places: int) -> str:
        """Write it for people."""
        high = "unknown" if self.high is None else f"{self.high:,.{places}f}"
        return f"{self.point:,.{places}f} ({CONFIDENCE:.0%}: {self.low:,.{places}f} to {high})"


@dataclass(frozen=True, slots=True)
class Tier:
    """Rows that are alike: how many are left, and what each of the tried ones took; None is unknown."""

    left: int
    took: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the rows that are left will take; None is unknown. `basis` says what that rests on."""

    rows: int
    basis: str
    usd: Range | None = None
    tokens: Range | None = None
    seconds: float | None = None

    def text(self) -> str:
        """Write it for people."""
        if not self.rows:
            return "Nothing is left to publish"
        told = [f"{self.rows:,} rows are left, by {self.basis}"]
        told += [f"cost in USD {self.usd.text(4)}"] if self.usd else ["cost unknown: no price"]
        told += [f"tokens {self.tokens.text(0)}"] if self.tokens else []
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
        }


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


def from_size(rows: int, prompt_bytes: int, max_tokens: int | None) -> Forecast:
    """Guess tokens from the size of the prompts, where nothing was tried: an interval by experience alone.

    A token is 2.5 to 5 bytes, by most tokenizers and scripts; an answer has up to `max_tokens`, the point half of it.
    """
    point = prompt_bytes / 4 + rows * (256 if max_tokens is None else max_tokens / 2)
    high = None if max_tokens is None else prompt_bytes / 2.5 + rows * max_tokens
    basis = "the size of the prompts alone, which is a guess: no row was asked before"
    return Forecast(rows, basis, tokens=Range(prompt_bytes / 5, point, high))


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


def spread(sizes: Sequence[int], most: int) -> list[int]:
    """Share out the rows to try: half of them evenly over the tiers, half by size, and no tier more than it has.

    The sum is `most`, or all rows if there are fewer; each tier that has rows gets one if there are enough.
    """
    most, given = min(most, sum(sizes)), [0] * len(sizes)
    filled = [number for number, size in enumerate(sizes) if size]
    while left := most - sum(given):
        open_ = [number for number in filled if given[number] < sizes[number]]
        weight = sum(sizes[number] for number in open_)
        for number in open_:
            share = left / 2 / len(open_) + left / 2 * sizes[number] / weight
            given[number] += min(int(share), sizes[number] - given[number])
        if most - sum(given) == left:
            # Less than one each: the smallest tiers first, which have the fewest.
            for number in sorted(open_, key=lambda number: (given[number], sizes[number]))[:left]:
                given[number] += 1
    return _none_left_out(given, filled, most)


def _none_left_out(given: list[int], filled: list[int], most: int) -> list[int]:
    """Let the richest tier give one to each that has got none, if there are enough."""
    for number in filled if most >= len(filled) else []:
        if not given[number]:
            given[max(filled, key=given.__getitem__)] -= 1
            given[number] = 1
    return given
