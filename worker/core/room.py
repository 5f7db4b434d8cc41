"""How many prompts a worker takes in hand, and how many of each topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import ceil


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is in hand at once: claims waiting for a place beyond the limit, and prompts not yet durable."""

    ahead: int
    open: int

    @staticmethod
    def of(max_in_flight: int) -> Bounds:
        """Bounds for a limit on calls: an eighth ahead, and three times as many open as running."""
        return Bounds(ahead=max(16, max_in_flight // 8), open=3 * max_in_flight + 64)


class Tally:
    """Counts by topic, and their sum; a topic whose count is 0 is not there."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.total = 0

    def add(self, topic: str, count: int = 1) -> None:
        """Count so many more, or fewer."""
        self.total += count
        now = self._counts.get(topic, 0) + count
        if now:
            self._counts[topic] = now
        else:
            del self._counts[topic]

    def of(self, topic: str) -> int:
        """How many of this topic."""
        return self._counts.get(topic, 0)

    @property
    def topics(self) -> Collection[str]:
        """The topics that count anything."""
        return self._counts.keys()


@dataclass(frozen=True, slots=True)
class Crowd:
    """The prompts in hand: open until their end is durable, asking while at an endpoint or waiting for a place
    there, inside while their call runs."""

    open: Tally = field(default_factory=Tally)
    asking: Tally = field(default_factory=Tally)
    inside: Tally = field(default_factory=Tally)

    def room(self, topic: str, limit: int, bounds: Bounds, weights: Mapping[str, float]) -> int:
        """Give the number of prompts of a topic that may be in the next claim, while `limit` calls may run at once.

        Alone, a topic may use everything. Beside others at most half of the open prompts may be its idle ones, and an
        equal part of them it may have in any case: so a topic that comes while another fills the bound finds room,
        and together they stay below twice the bound. While a call could begin, a topic that asks nothing may have
        one: parts are rounded up, so what waits of others may add up to more than the claims ahead.
        """
        topics = {*self.open.topics, topic}
        held, left = self.open.of(topic), bounds.open - self.open.total
        if len(topics) > 1:
            idle = held - self.inside.of(topic)
            left = max(min(left, bounds.open // 2 - idle), bounds.open // len(topics) - held)
        places = self._places(limit)
        part = _part(topic, topics, bounds, weights) + places - self._waiting(topic)
        first = min(places, 1) if not self.asking.of(topic) else 0
        return max(min(left, max(min(part, self.free(limit, bounds, weights)), first)), 0)

    def free(self, limit: int, bounds: Bounds, weights: Mapping[str, float]) -> int:
        """Give the number of prompts of all topics that may be in the next claim.

        That is the places free now and some claims ahead. Each topic has its part of these by weight; what waits
        beyond that part, as when an endpoint is down, takes nobody's place.
        """
        topics = self.asking.topics
        waiting = sum(min(self._waiting(one), _part(one, topics, bounds, weights)) for one in topics)
        return max(bounds.ahead + self._places(limit) - waiting, 0)

    def _places(self, limit: int) -> int:
        return max(limit - self.inside.total, 0)

    def _waiting(self, topic: str) -> int:
        return self.asking.of(topic) - self.inside.of(topic)


def _part(topic: str, topics: Collection[str], bounds: Bounds, weights: Mapping[str, float]) -> int:
    share = weights.get(topic, 1.0) / sum(weights.get(one, 1.0) for one in topics)
    return ceil(bounds.ahead * share)
