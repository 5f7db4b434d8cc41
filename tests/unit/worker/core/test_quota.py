"""A worker's share of a limit of the fleet: whatever comes, goes or dies, the limit holds and is used."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.statuses import Unit
from simulator.limits import FixedWindow, SlidingWindow, TokenBucket, Window
from worker.core.quota import AHEAD_SECONDS, USED, Lease, Share


@dataclass
class Store:
    """Leases as the database gives them: one stretch of time after another, none too far ahead."""

    next_at: float = 0.0

    def lease(self, now: float, units: float, every: float) -> Lease | None:
        if self.next_at >= now + AHEAD_SECONDS:
            return None
        start = max(self.next_at, now)
        self.next_at = start + units * every
        return Lease(start, every, units)


@dataclass
class Fleet:
    """Workers that lease, and calls that leave when their units are ready."""

    limit: float
    window: Window
    workers: int
    unit: Unit = Unit.REQUESTS
    units: float = 1.0
    store: Store = field(default_factory=Store)
    refused: int = 0
    taken: float = 0.0

    def run(self, seconds: float, lives: dict[int, tuple[float, float]] | None = None, seed: int = 1) -> None:
        """Workers live from and until, by number; all the time those not named."""
        draw, order, rate = random.Random(seed), count(), USED[self.unit] * self.limit / 60
        shares = {number: Share(rate) for number in range(self.workers)}
        events = [(0.0, next(order), number) for number in shares]
        while events[0][0] < seconds:
            now, _, number = heapq.heappop(events)
            begin, end = (lives or {}).get(number, (0.0, seconds))
            if now >= end:
                heapq.heappush(events, (seconds, next(order), number))
                continue
            share, wake = shares[number], max(begin, now + 0.05 * draw.random())
            if now >= begin:
                if (units := share.wanted(40 * self.units, self.units)) and (
                    lease := self.store.lease(now, units, 1 / rate)
                ):
                    share.add(lease)
                while (at := share.ready_at(now, self.units)) <= now:
                    share.take(self.units)
                    # The network keeps no even pace.
                    self._arrive(now + 0.005 * draw.random())
                wake = min(wake + 0.05, at) if at < float("inf") else wake
            heapq.heappush(events, (max(wake, now + 0.001), next(order), number))

    def _arrive(self, now: float) -> None:
        if self.window.wait(now, self.units) > 0:
            self.refused += 1
        else:
            self.window.take(now, self.units)
            self.taken += self.units


def windows(limit: float) -> dict[str, Window]:
    return {
        "sliding": SlidingWindow(limit, 60),
        "fixed": FixedWindow(limit, 60),
        "bucket": TokenBucket(limit, 60, limit / 60),
    }


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("limit", [600, 6000])
@pytest.mark.parametrize("kind", ["sliding", "fixed", "bucket"])
def test_a_limit_that_was_told_is_used_and_not_met(kind: str, limit: int, workers: int) -> None:
    fleet = Fleet(limit, windows(limit)[kind], workers)
    fleet.run(180)
    assert fleet.taken >= 0.97 * limit * 3
    assert fleet.refused <= 0.01 * fleet.taken


@pytest.mark.parametrize("kind", ["sliding", "bucket"])
def test_it_holds_while_workers_come_go_and_die(kind: str) -> None:
    lives = {number: (7.0 * number, 60.0 + 10 * number) for number in range(1, 8)}
    fleet = Fleet(6000, windows(6000)[kind], 8)
    fleet.run(180, lives)
    assert fleet.taken >= 0.95 * 6000 * 3
    assert fleet.refused <= 0.01 * fleet.taken


def test_tokens_are_leased_by_the_call() -> None:
    fleet = Fleet(200_000, SlidingWindow(200_000, 60), 4, Unit.TOKENS, 3000.0)
    fleet.run(180)
    assert fleet.taken >= 0.9 * 600_000
    assert fleet.refused == 0


# By then nobody has been refused for so long that what was reserved does not count.
TRUSTED = 1000.0


def trusting(rate: float) -> Share:
    share = Share(rate)
    assert share.suspicion(0.0) == 1
    assert share.suspicion(TRUSTED) == 0
    return share


def test_a_reserve_that_was_not_used_comes_back_and_an_excess_is_owed() -> None:
    share = trusting(rate=100)
    share.add(Lease(TRUSTED - 1, 0.01, 100))
    share.take(60)
    share.settle(TRUSTED, reserved=60, used=20)
    assert share.held == 80
    share.take(50)
    assert share.credit == 0
    share.settle(TRUSTED, reserved=50, used=120)
    assert share.held == -40
    assert share.wanted(10, 10) == 50
    assert share.ready_at(TRUSTED, 10) == float("inf")


def test_what_was_reserved_counts_until_a_while_has_gone_without_a_refusal() -> None:
    share = Share(rate=100)
    for at, credit in ((0.0, 0), (60.0, 0), (180.0, 50), (300.0, 100)):
        share.credit = 0.0
        share.settle(at, reserved=100, used=0)
        assert share.credit == pytest.approx(credit)
    share.suspect(300.0, 301.0)
    share.suspect(300.5, 302.0)
    assert share.credit == 0
    for at, credit in ((301.0, 0), (1501.0, 0), (1741.0, 100)):
        share.credit = 0.0
        share.settle(at, reserved=100, used=0)
        assert share.credit == pytest.approx(credit)


def test_credit_is_worth_a_few_seconds_at_most() -> None:
    share = trusting(rate=10)
    for _ in range(100):
        share.settle(TRUSTED, reserved=100, used=0)
    assert share.credit == 50


def test_units_that_nobody_wanted_are_kept_for_a_second_but_for_what_one_call_saves_up() -> None:
    share = Share(rate=10)
    share.add(Lease(0.0, 0.1, 50))
    assert share.ready_at(4.0, 1) <= 4.0
    assert share.held == pytest.approx(20)
    assert share.ready_at(100.0, 1) <= 100.0
    assert share.held == pytest.approx(1)
    share.add(Lease(100.0, 0.1, 500))
    assert share.ready_at(120.0, 150) <= 120.0
    assert share.held == pytest.approx(450, abs=1)


def test_a_fleet_that_could_call_nobody_for_long_begins_with_a_second_of_the_limit() -> None:
    rate, store = USED[Unit.REQUESTS] * 100, Store()
    shares = [Share(rate) for _ in range(8)]
    for nth in range(8 * 1200):
        now, share = nth / 80, shares[nth % 8]
        share.ready_at(now, 1.0)
        if (units := share.wanted(40, 1)) and (lease := store.lease(now, units, 1 / rate)):
            share.add(lease)
    left = 0
    for share in shares:
        while share.ready_at(120.0, 1.0) <= 120.0:
            share.take(1.0)
            left += 1
    assert left <= 1.1 * rate


@given(
    st.lists(
        st.tuples(st.floats(0, 3), st.floats(0.1, 500), st.floats(1, 50), st.floats(0, 200), st.booleans()),
        max_size=60,
    )
)
def test_no_more_leaves_than_has_matured_and_was_credited(
    events: list[tuple[float, float, float, float, bool]],
) -> None:
    share, now, left, credited, leases = trusting(rate=50), TRUSTED, 0.0, 0.0, [(TRUSTED, 0.0)]
    for gap, leased, units, used, again in events:
        now += gap
        if again:
            start = max(now, leases[-1][0] + leases[-1][1] * 0.02)
            share.add(Lease(start, 0.02, leased))
            leases.append((start, leased))
        at = share.ready_at(now, units)
        if at < float("inf"):
            now = max(now, at)
            share.take(units)
            left += units
            matured = sum(max(0.0, min(leased_, (now - start) / 0.02)) for start, leased_ in leases)
            assert left <= matured + credited + 1e-6 * (1 + left)
            before = share.credit
            share.settle(now, units, used)
            credited += share.credit - before
