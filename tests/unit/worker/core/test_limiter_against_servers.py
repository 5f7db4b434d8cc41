"""The limit of an endpoint against servers that refuse or queue what is too much."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

import pytest

from worker.core.limiter import Limiter, Signal

REFUSAL_SECONDS = 0.005


@dataclass
class World:
    """Workers that always have work, and a server that runs so many calls at once and refuses the others."""

    latency: float
    workers: int
    most_at: list[tuple[float, int]]
    answers: Counter[int] = field(default_factory=Counter)
    refusals: int = 0

    def run(self, seconds: float) -> None:
        limits = [Limiter(256, 120.0) for _ in range(self.workers)]
        inside, away, order = [0] * self.workers, [0.0] * self.workers, count()
        # When a call ends, whose it is, when it began, whether it is answered; or a moment to look again.
        ends: list[tuple[float, int, int, float, bool | None]] = [(0.0, next(order), 0, 0.0, None)]
        running = 0
        while ends and ends[0][0] <= seconds:
            now, _, worker, started, answered = heapq.heappop(ends)
            if answered is not None:
                running -= answered
                self._count(now, answered)
                signal = Signal.ANSWERED if answered else Signal.OVERLOADED
                limits[worker].sample(signal, started=started, now=now, in_flight=inside[worker])
                inside[worker] -= 1
                if limits[worker].rest and not answered:
                    away[worker] = now + limits[worker].rest
                    heapq.heappush(ends, (away[worker], next(order), worker, 0.0, None))
            for w, limit in enumerate(limits):
                while now >= away[w] and inside[w] < int(limit.limit):
                    takes = running < self._most(now)
                    running += takes
                    inside[w] += 1
                    end = now + (self.latency if takes else REFUSAL_SECONDS)
                    heapq.heappush(ends, (end, next(order), w, now, takes))

    def share(self, begin: int, end: int) -> float:
        """Answers in a stretch, against what the server could have given."""
        possible = sum(self._most(second) for second in range(begin, end)) / self.latency
        return sum(self.answers[second] for second in range(begin, end)) / possible

    def _count(self, now: float, answered: bool) -> None:
        if answered:
            self.answers[int(now)] += 1
        else:
            self.refusals += 1

    def _most(self, now: float) -> int:
        return [most for at, most in self.most_at if at <= now][-1]


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("latency", [0.1, 0.2, 1.0])
def test_a_server_that_falls_from_64_at_once_to_4_and_comes_back_is_followed(latency: float, workers: int) -> None:
    world = World(latency, workers, [(0, 64), (30, 4), (60, 64)])
    world.run(90)
    assert world.share(15, 30) >= 0.9
    assert world.share(40, 60) >= 0.9
    assert world.share(70, 90) >= 0.9
    assert world.refusals < 0.2 * sum(world.answers.values())


def test_a_server_that_queues_is_not_given_more_than_it_answers_in_time() -> None:
    """Two places, 20 s a call: what is in flight beyond two waits, and beyond twelve runs out of its 120 s."""
    limiter = Limiter(most=256, read_timeout=120)
    now, slowest = 0.0, 0.0
    queue = [0.0] * int(limiter.limit)
    for _ in range(200):
        now += 10
        started = queue.pop(0)
        slowest = max(slowest, now - started)
        limit = limiter.sample(Signal.ANSWERED, started=started, now=now, in_flight=len(queue) + 1)
        queue += [now] * max(0, limit - len(queue))
    assert slowest < 120
    assert 2 <= int(limiter.limit) <= 6


def test_a_slow_server_that_does_not_queue_is_used_to_the_full() -> None:
    """Each call takes 60 s of a time-out of 120 s, however many run."""
    limiter = Limiter(most=64, read_timeout=120)
    for trip in range(8):
        for _ in range(int(limiter.limit)):
            limiter.sample(Signal.ANSWERED, started=60.0 * trip, now=60.0 * trip + 60, in_flight=int(limiter.limit))
    assert limiter.limit == 64
