"""Two owners of one row, interleaved at every step, with leases that lapse anywhere between."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from schemas.database import MAX_STARTS
from tests.contract.stores import FakeHarness, PostgresHarness, StoreHarness
from tests.fakes.samples import called, finished, work
from worker.core.claims import Verdict
from worker.ports import Store, Work

# a, b: this owner's next step; l: every lease runs out; r: the holder's claim is given back if it is a's.
STEPS = "ablr"


@dataclass
class Owner:
    """Claims until it may ask, asks, and writes; each call of `step` is one of these, as between two awaits."""

    name: str
    store: Store
    calls: int = 0
    ended: str = ""
    holding: Work | None = None
    answered: bool = False
    stored: list[str] = field(default_factory=list)

    async def step(self) -> None:
        if self.ended:
            return
        if self.holding is None:
            await self._claim()
        elif not self.answered:
            self.calls += 1
            self.answered = True
        else:
            await self._write()

    async def _claim(self) -> None:
        one = work("r-1")
        (got,) = await self.store.claim([one])
        one.claim = got
        if got.ours:
            self.holding = one
        elif got.verdict in (Verdict.DONE, Verdict.CRASHED):
            self.ended = got.verdict

    async def _write(self) -> None:
        assert self.holding is not None
        assert self.holding.claim is not None
        text = f"{self.name} {self.holding.claim.fence}"
        line = called(self.holding, self.holding.claim.attempts + 1)
        (took,) = await self.store.finish([finished(self.holding, text)], [line])
        if took:
            self.stored.append(text)
            self.ended = "stored"
        self.holding, self.answered = None, False

    async def give_back(self) -> None:
        """Release a claim whose call has not begun."""
        if self.holding is not None and not self.answered:
            await self.store.release([self.holding])
            self.holding = None


async def play(harness: StoreHarness, schedule: Sequence[str]) -> None:
    """Run one schedule and then both owners to their ends; check what must hold of any history."""
    await harness.open()
    owners = {name: Owner(name, await harness.store(name)) for name in "ab"}
    for step in [*schedule, *"ab" * 12]:
        if step == "l":
            await harness.lapse()
        elif step == "r":
            await owners["a"].give_back()
        else:
            await owners[step].step()
    await check(harness, list(owners.values()))


async def check(harness: StoreHarness, owners: list[Owner]) -> None:
    row, lines = await harness.row("r-1"), await harness.calls("r-1")
    stored = [text for owner in owners for text in owner.stored]
    assert all(owner.ended for owner in owners)
    assert len(stored) <= 1, "two owners were both told that their answer stands"
    if row["status"] == "succeeded":
        assert [row["result"]] == stored
    else:
        assert (row["status"], row["reason"], stored) == ("failed", "crashed", [])
    calls = sum(owner.calls for owner in owners)
    assert len(lines) >= calls, "a call is not on record"
    assert sum(line["billed"] in ("yes", "maybe") for line in lines) >= calls
    assert row["starts"] <= MAX_STARTS
    assert len({(line["attempt"], line["claimed_at"]) for line in lines}) == len(lines)


@pytest.mark.parametrize("first", list(itertools.product(STEPS, repeat=2)), ids="".join)
async def test_every_schedule_of_seven_steps_in_memory(first: tuple[str, ...]) -> None:
    for rest in itertools.product("abl", repeat=5):
        await play(FakeHarness(), [*first, *rest])


@pytest.mark.integration
async def test_a_hundred_drawn_schedules_in_postgres(migrated: str) -> None:
    drawn = random.Random(11)
    harness = PostgresHarness(migrated)
    await harness.open()
    try:
        for _ in range(100):
            await play(harness, drawn.choices(STEPS, [4, 4, 2, 1], k=drawn.randint(4, 14)))
    finally:
        await harness.close()
