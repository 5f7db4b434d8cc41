"""Chance that repeats: every draw is a function of the seed and of what it is drawn for."""

from __future__ import annotations

from hashlib import blake2b
from statistics import NormalDist

_SCALE = float(1 << 64)
_NORMAL = NormalDist()
_Z99 = _NORMAL.inv_cdf(0.99)


def whole(*parts: object) -> int:
    """A whole number from 0 to 2**64 - 1, the same for the same parts on every machine."""
    key = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")


def unit(*parts: object) -> float:
    """A number above 0 and below 1, the same for the same parts on every machine."""
    return (whole(*parts) // 2048 + 0.5) * 2048 / _SCALE


def uniform(draw: float, low: float, high: float) -> float:
    """Spreads a draw evenly between two bounds."""
    return low + draw * (high - low)


def lognormal(draw: float, p50: float, p99: float) -> float:
    """Shapes a draw as a log-normal value with the given median and 99th percentile (both above 0)."""
    spread = p99 / p50
    return float(p50 * spread ** (_NORMAL.inv_cdf(draw) / _Z99))
