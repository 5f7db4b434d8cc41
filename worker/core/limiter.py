"""How many calls an endpoint can take at once: additive increase, multiplicative decrease, one cut a flight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

INITIAL = 4
# One overload takes three tenths; those that started before the cut say nothing new.
CUT = 0.7
# A server that queues instead of refusing shows it by its latency: calls that take more than this share of the read
# time-out, and much longer than the quickest have taken, wait in a queue where they may run out of time.
SLOW_SHARE = 0.25
SLOW_FACTOR = 2.0
# Where calls take long enough for that to matter, only an answer about as quick as the quickest lets the limit grow.
EASY_SHARE = 0.1
EASY_FACTOR = 1.5
_SMOOTHING = 0.2


class Signal(StrEnum):
    """What the end of a call says about the limit."""

    ANSWERED = "answered"
    IGNORED = "ignored"
    OVERLOADED = "overloaded"


@dataclass(slots=True)
class Limiter:
    """The limit of one endpoint, from 1 to `most`; times in seconds of the caller's clock.

    Until the first cut the limit grows by one with each answer, so it doubles in a round trip; afterwards by one in a
    round trip. It grows only while it is in use.
    """

    most: int
    read_timeout: float
    limit: float = 0.0
    _cut_at: float = float("-inf")
    _has_cut: bool = False
    _quickest: float = float("inf")
    _smoothed: float = 0.0

    def __post_init__(self) -> None:
        self.limit = self.limit or float(min(INITIAL, self.most))

    def sample(self, signal: Signal, *, started: float, now: float, in_flight: int) -> int:
        """Learn from the end of a call, with `in_flight` calls beside it; returns the limit."""
        if signal is Signal.OVERLOADED:
            self._cut(started, now)
        elif signal is Signal.ANSWERED:
            seconds = now - started
            self._learn(seconds)
            if self._is_slow:
                self._cut(started, now)
            elif in_flight * 2 >= self.limit and self._is_easy(seconds):
                self.limit = min(self.limit + (1.0 / self.limit if self._has_cut else 1.0), float(self.most))
        return max(1, int(self.limit))

    @property
    def _is_slow(self) -> bool:
        return self._smoothed > max(self.read_timeout * SLOW_SHARE, self._quickest * SLOW_FACTOR)

    def _is_easy(self, seconds: float) -> bool:
        return seconds <= max(self.read_timeout * EASY_SHARE, self._quickest * EASY_FACTOR)

    def _learn(self, seconds: float) -> None:
        self._quickest = min(self._quickest, seconds)
        self._smoothed = seconds if not self._smoothed else self._smoothed + _SMOOTHING * (seconds - self._smoothed)

    def _cut(self, started: float, now: float) -> None:
        if started < self._cut_at:
            return
        self.limit = max(1.0, self.limit * CUT)
        self._cut_at = now
        self._has_cut = True
        self._smoothed = 0.0
