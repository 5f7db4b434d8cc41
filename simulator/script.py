"""What a script is once read: rules, limits and the few options of the whole endpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from simulator import draws

Pairs = tuple[tuple[str, str | None], ...]


class Unset(Enum):
    """Stands for a field that was not given where null is a value of its own."""

    UNSET = "unset"


UNSET = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds until the first byte: evenly between two bounds, or log-normal by its p50 and p99."""

    shape: Literal["uniform", "lognormal"] = "uniform"
    low: float = 0.0
    high: float = 0.0

    def seconds(self, draw: float) -> float:
        """The latency in seconds for a draw above 0 and below 1."""
        if self.low == self.high:
            return self.low / 1000
        shaped = draws.uniform if self.shape == "uniform" else draws.lognormal
        return shaped(draw, self.low, self.high) / 1000


@dataclass(frozen=True, slots=True)
class Match:
    """Conditions on a call; all that are given must hold."""

    ids: frozenset[str] | None = None
    id_prefix: str | None = None
    prompt_contains: str | None = None
    prompt_chars_over: int | None = None
    probability: float | None = None
    attempts: frozenset[int] | None = None
    model: str | None = None
    param: str | None = None
    after_s: float | None = None
    until_s: float | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Trickle:
    """Sends `size` bytes each `every_ms`, beginning with the body or already with the head."""

    size: int
    every_ms: float
    start: Literal["body", "head"] = "body"


@dataclass(frozen=True, slots=True)
class Action:
    """What happens to a call. With everything at its default, a good answer with status 200."""

    latency_ms: Latency | None = None
    status: int | None = None
    headers: Pairs = ()
    error: dict[str, object] | None = None
    body: bytes | None = None
    json: object = UNSET
    append: str | None = None
    content_type: str | None = None
    content: str | None = None
    content_chars: int | None = None
    finish_reason: str | Unset | None = UNSET
    usage: object = UNSET
    message: dict[str, object] | None = None
    omit: frozenset[str] = frozenset()
    max_tokens: Literal["truncate", "ignore"] = "truncate"
    close: Literal["before_request", "after_request", "mid_headers", "mid_body"] | None = None
    close_after_bytes: int | None = None
    reset: bool = False
    hang: bool = False
    trickle: Trickle | None = None
    chunked: int | None = None
    gzip: bool = False
    gzip_bomb: int | None = None
    big_body: int | None = None
    wrong_content_length: int | None = None
    redirect: str | None = None
    event_stream: bool = False
    abort_on_disconnect: bool = False
    bill: bool | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a script: the first rule whose match holds is applied."""

    name: str
    match: Match
    action: Action


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """How a refusal says when to come back; `fixed_s` replaces the computed wait."""

    form: Literal["s", "fraction", "ms", "date", "none"] = "s"
    fixed_s: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `amount` requests or tokens per `window_s` seconds."""

    unit: Literal["requests", "tokens"]
    amount: float
    window: Literal["sliding", "fixed", "bucket"] = "sliding"
    window_s: float = 60.0
    burst: float | None = None
    model: str | None = None
    count: Literal["reserved", "prompt"] = "reserved"
    retry_after: RetryAfter = RetryAfter()


@dataclass(frozen=True, slots=True)
class ConcurrencyLimit:
    """At most so many calls open at once, by a schedule of (from second, calls)."""

    schedule: tuple[tuple[float, int], ...]
    over: Literal["429", "queue", "503"] = "429"
    model: str | None = None
    retry_after: RetryAfter = RetryAfter(fixed_s=1.0)


@dataclass(frozen=True, slots=True)
class Script:
    """Everything that settles how the endpoint behaves."""

    rules: tuple[Rule, ...] = ()
    rates: tuple[RateLimit, ...] = ()
    concurrency: tuple[ConcurrencyLimit, ...] = ()
    api_keys: frozenset[str] | None = None
    models: tuple[str, ...] | None = None
    idle_timeout_s: float | None = None
    seed: str | None = None
    default_rule: Rule = field(default=Rule("default", Match(), Action()))
