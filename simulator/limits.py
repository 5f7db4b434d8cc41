"""Rate windows and concurrency gates; time is always passed in, in seconds since the start or reset."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from simulator.script import ConcurrencyLimit, RateLimit, Script

_EPSILON = 1e-9


class Window(Protocol):
    """Counts what was taken and says how long until `cost` more may be taken."""

    def wait(self, now: float, cost: float) -> float:
        """Seconds until `cost` fits; 0 when it fits now."""
        ...

    def take(self, now: float, cost: float) -> None:
        """Counts `cost` at `now`."""
        ...


class SlidingWindow:
    """In no stretch of `span` seconds more than `amount`."""

    def __init__(self, amount: float, span: float) -> None:
        self._amount, self._span = amount, span
        self._taken: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def wait(self, now: float, cost: float) -> float:
        self._forget(now)
        excess = self._sum + cost - self._amount
        if excess <= 0:
            return 0.0
        for at, amount in self._taken:
            excess -= amount
            if excess <= 0:
                return at + self._span - now
        return self._span

    def take(self, now: float, cost: float) -> None:
        self._taken.append((now, cost))
        self._sum += cost

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0][0] + self._span <= now:
            self._sum -= self._taken.popleft()[1]


class FixedWindow:
    """At most `amount` in each window of `span` seconds counted from 0; a full window empties at once."""

    def __init__(self, amount: float, span: float) -> None:
        self._amount, self._span = amount, span
        self._window, self._sum = 0, 0.0

    def wait(self, now: float, cost: float) -> float:
        self._turn(now)
        if self._sum + cost <= self._amount:
            return 0.0
        return max((self._window + 1) * self._span - now, _EPSILON)

    def take(self, now: float, cost: float) -> None:
        self._turn(now)
        self._sum += cost

    def _turn(self, now: float) -> None:
        window = int(now // self._span)
        if window != self._window:
            self._window, self._sum = window, 0.0


class TokenBucket:
    """Refills at `amount` per `span` seconds up to `burst`; begins full."""

    def __init__(self, amount: float, span: float, burst: float) -> None:
        self._rate, self._burst = amount / span, burst
        self._level, self._at = burst, 0.0

    def wait(self, now: float, cost: float) -> float:
        self._refill(now)
        missing = min(cost, self._burst) - self._level
        return missing / self._rate if missing > _EPSILON else 0.0

    def take(self, now: float, cost: float) -> None:
        self._refill(now)
        self._level -= cost

    def _refill(self, now: float) -> None:
        gained = (now - self._at) * self._rate
        self._level, self._at = min(self._burst, self._level + gained), now


def window_of(limit: RateLimit) -> Window:
    """Builds the window of one rate limit; a bucket's burst is one second's worth unless given."""
    if limit.window == "sliding":
        return SlidingWindow(limit.amount, limit.window_s)
    if limit.window == "fixed":
        return FixedWindow(limit.amount, limit.window_s)
    burst = limit.burst if limit.burst is not None else max(1.0, limit.amount / limit.window_s)
    return TokenBucket(limit.amount, limit.window_s, burst)


class ConcurrencyGate:
    """Counts the open calls of one concurrency limit."""

    def __init__(self, limit: ConcurrencyLimit) -> None:
        self.limit = limit
        self.open = 0

    def allowed(self, now: float) -> int:
        """How many calls may be open at `now`."""
        return [most for at, most in self.limit.schedule if at <= now][-1]

    def next_change(self, now: float) -> float | None:
        """When the schedule next changes, or None."""
        return next((at for at, _ in self.limit.schedule if at > now), None)

    def has_room(self, now: float) -> bool:
        """Whether one more call may open at `now`."""
        return self.open < self.allowed(now)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that a limit refuses, and the seconds after which it may come again."""

    limit: RateLimit | ConcurrencyLimit
    wait: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call takes from the limits."""

    model: str
    prompt_tokens: int
    max_tokens: int

    def of(self, limit: RateLimit) -> float:
        """What this call takes from one limit, in the limit's unit."""
        if limit.unit == "requests":
            return 1.0
        return float(self.prompt_tokens + (self.max_tokens if limit.count == "reserved" else 0))


class Limiter:
    """All limits of one script; a refused call takes nothing from any of them."""

    def __init__(self, script: Script) -> None:
        self._rates = [(limit, window_of(limit)) for limit in script.rates]
        self.gates = [ConcurrencyGate(limit) for limit in script.concurrency]
        self.idle = not self._rates and not self.gates

    def gate_of(self, model: str) -> ConcurrencyGate | None:
        """The gate that calls of `model` pass, if any."""
        return next((gate for gate in self.gates if gate.limit.model in (None, model)), None)

    def refuse(self, now: float, cost: Cost) -> Refusal | None:
        """Takes the call's cost from every rate limit, or says which limit refuses it."""
        gate = self.gate_of(cost.model)
        if gate and gate.limit.over != "queue" and not gate.has_room(now):
            return Refusal(gate.limit, gate.limit.retry_after.fixed_s or 0.0)
        windows = [(limit, window) for limit, window in self._rates if limit.model in (None, cost.model)]
        waits = [(window.wait(now, cost.of(limit)), limit) for limit, window in windows]
        longest = max(waits, key=lambda pair: pair[0], default=None)
        if longest and longest[0] > 0:
            fixed = longest[1].retry_after.fixed_s
            return Refusal(longest[1], longest[0] if fixed is None else fixed)
        for limit, window in windows:
            window.take(now, cost.of(limit))
        return None
