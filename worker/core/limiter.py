"""How many calls an endpoint can take at once: additive increase, multiplicative decrease, one cut a flight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

INITIAL = 4
# While nothing is known, and again after a quiet time, the limit doubles in so long: fast enough for a job of
# minutes, slow enough that few calls are under way when a limit is met.
DOUBLING_SECONDS = 1.5
# A refusal takes a little, since the server works at its limit; one that comes again in the next flight takes much.
CUT = 0.85
CUT_AGAIN = 0.6
# After a cut most of it comes back in so long, then one call a round trip, and if nobody is refused for a while the
# server may take far more than before.
RECOVERY_SECONDS = 1.5
RECOVERED = 0.95
QUIET_SECONDS = 3.0
# A server that queues instead of refusing shows it by its latency: calls that take more than this share of the read
# time-out, and much longer than the quickest have taken, wait in a queue where they may run out of time.
SLOW_SHARE = 0.25
SLOW_FACTOR = 2.0
# Where calls take long enough for that to matter, only an answer about as quick as the quickest lets the limit grow.
EASY_SHARE = 0.1
EASY_FACTOR = 1.5
SLOW_CUT = 0.7
# A caller who is refused his only call stays away: for a round trip, then twice as long, up to this.
LONGEST_REST_SECONDS = 10.0
_SMOOTHING = 0.2
# A gap between two samples says no more than this, or than one round trip, about the time in use.
_LONGEST_GAP = 0.5


class Signal(StrEnum):
    """What the end of a call says about the limit."""

    ANSWERED = "answered"
    IGNORED = "ignored"
    OVERLOADED = "overloaded"


@dataclass(slots=True)
class Limiter:
    """The limit of one endpoint, from 1 to `most`; times in seconds of the caller's clock.

    It doubles until the first cut. After a cut it comes back to just below where it was, goes on by one in a round
    trip, and doubles again when nobody was refused for a while. It grows only while it is in use, and is cut once for
    all calls of a flight. `rest` is the time to stay away after a refusal of the only call.
    """

    most: int
    read_timeout: float
    limit: float = 0.0
    rest: float = 0.0
    _cut_at: float = float("-inf")
    _ceiling: float | None = None
    _floor: float = 0.0
    _sampled_at: float = 0.0
    _quickest: float = float("inf")
    _smoothed: float = 0.0

    def __post_init__(self) -> None:
        self.limit = self.limit or float(min(INITIAL, self.most))

    def sample(self, signal: Signal, *, started: float, now: float, in_flight: int) -> int:
        """Learn from the end of a call, with `in_flight` calls beside it; returns the limit."""
        if signal is Signal.OVERLOADED:
            self._refused(started, now)
        elif signal is Signal.ANSWERED:
            self._answered(now, now - started, started, in_use=in_flight * 2 >= self.limit)
        self._sampled_at = now
        return max(1, int(self.limit))

    def restart(self) -> None:
        """Begin small again: a server that comes back is not trampled by all who waited."""
        self.limit = float(min(INITIAL, self.most))
        self.rest, self._ceiling, self._smoothed = 0.0, None, 0.0

    def bound(self, most: int) -> None:
        """Set another most."""
        self.most = most
        self.limit = min(self.limit, float(most))

    @property
    def _is_slow(self) -> bool:
        return self._smoothed > max(self.read_timeout * SLOW_SHARE, self._quickest * SLOW_FACTOR)

    @property
    def _round_trip(self) -> float:
        return self._smoothed or (self._quickest if self._quickest < float("inf") else 0.0)

    def _answered(self, now: float, seconds: float, started: float, *, in_use: bool) -> None:
        self._learn(seconds)
        self.rest = 0.0
        if self._is_slow:
            self._cut(SLOW_CUT, started, now)
            self._smoothed = 0.0
        elif in_use and seconds <= max(self.read_timeout * EASY_SHARE, self._quickest * EASY_FACTOR):
            self._grow(now)

    def _learn(self, seconds: float) -> None:
        self._quickest = min(self._quickest, seconds)
        self._smoothed = seconds if not self._smoothed else self._smoothed + _SMOOTHING * (seconds - self._smoothed)

    def _grow(self, now: float) -> None:
        trip = self._round_trip
        gap = min(now - self._sampled_at, max(_LONGEST_GAP, trip))
        recovery = max(RECOVERY_SECONDS, 2 * trip)
        if self._ceiling is not None and now - self._cut_at > recovery + max(QUIET_SECONDS, 4 * trip):
            self._ceiling = None
        if self._ceiling is None:
            grown = self.limit * 2.0 ** (gap / max(DOUBLING_SECONDS, trip))
        elif self.limit < (back := self._ceiling * RECOVERED):
            grown = min(back, self.limit + (back - self._floor) * gap / recovery)
        else:
            grown = self.limit + 1.0 / self.limit
        self.limit = min(grown, float(self.most))

    def _refused(self, started: float, now: float) -> None:
        if self.limit <= 1.0:
            self.rest = min(max(2 * self.rest, self._round_trip, _LONGEST_GAP), LONGEST_REST_SECONDS)
        again = started - self._cut_at < 2 * max(self._round_trip, _LONGEST_GAP) and self.limit <= self._floor
        self._cut(CUT_AGAIN if again else CUT, started, now)

    def _cut(self, share: float, started: float, now: float) -> None:
        if started < self._cut_at:
            return
        self._ceiling = self.limit
        self.limit = self._floor = max(1.0, self.limit * share)
        self._cut_at = now
