"""The gate serves in order, loses no place to a cancellation, and looks again when time may have made one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.virtual_time import StuckError, now, run, settle, virtual
from worker.gate import Gate, Later


class Places:
    """So many numbered places."""

    def __init__(self, count: int) -> None:
        self.free = list(range(count))
        self.taken: set[int] = set()
        self.opens_at = 0.0
        self.looks = 0
        self.gate: Gate[None, int] = Gate(self._choose, self.leave)

    def leave(self, place: int) -> None:
        self.taken.remove(place)
        self.free.append(place)
        self.gate.look()

    def _choose(self, _item: None) -> int | Later:
        self.looks += 1
        if now() < self.opens_at:
            return Later(self.opens_at)
        if not self.free:
            return Later()
        place = self.free.pop(0)
        self.taken.add(place)
        return place


@virtual
async def test_a_free_place_is_taken_at_once() -> None:
    places = Places(2)
    assert [await places.gate.enter(None), await places.gate.enter(None)] == [0, 1]


@virtual
async def test_callers_are_served_in_the_order_they_came() -> None:
    places = Places(1)
    held = await places.gate.enter(None)
    served: list[int] = []

    async def call(nth: int) -> None:
        place = await places.gate.enter(None)
        served.append(nth)
        places.leave(place)

    calls = [asyncio.create_task(call(nth)) for nth in range(20)]
    await settle()
    assert places.gate.waiting == 20
    places.leave(held)
    await asyncio.gather(*calls)
    assert served == list(range(20))


@virtual
async def test_a_place_that_time_alone_makes_is_found_at_that_instant() -> None:
    places = Places(1)
    places.opens_at = now() + 3600
    began = now()
    await places.gate.enter(None)
    assert now() - began == pytest.approx(3600, abs=0.01)
    assert places.looks < 5


def test_a_place_that_never_comes_is_waited_for_without_spinning() -> None:
    with pytest.raises(StuckError):
        run(Places(0).gate.enter(None))


@virtual
async def test_a_caller_cancelled_while_it_waits_leaves_the_queue() -> None:
    places = Places(1)
    held = await places.gate.enter(None)
    first, second = (asyncio.create_task(places.gate.enter(None)) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    assert places.gate.waiting == 1
    places.leave(held)
    assert await second == 0
    assert first.cancelled()


@virtual
async def test_a_caller_cancelled_in_the_moment_it_is_served_gives_its_place_back() -> None:
    places = Places(1)
    held = await places.gate.enter(None)
    first, second = (asyncio.create_task(places.gate.enter(None)) for _ in range(2))
    await settle()
    places.leave(held)
    first.cancel()
    assert await second == 0
    assert first.cancelled()
    places.leave(0)
    assert places.free == [0]


@virtual
async def test_a_place_freed_in_the_moment_a_caller_is_cancelled_goes_to_the_next() -> None:
    places = Places(1)
    held = await places.gate.enter(None)
    first, second = (asyncio.create_task(places.gate.enter(None)) for _ in range(2))
    await settle()
    first.cancel()
    places.leave(held)
    assert await second == 0
    assert first.cancelled()


STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "leave", "cancel", "settle", "pass"]), st.integers(0, 5)), max_size=60
)


@given(STEPS, st.integers(1, 3))
def test_no_place_is_lost_or_given_twice_whatever_is_cancelled(steps: list[tuple[str, int]], count: int) -> None:
    run(_exercise(steps, count))


async def _exercise(steps: list[tuple[str, int]], count: int) -> None:
    places = Places(count)
    tasks: list[asyncio.Task[int]] = []
    for step, nth in steps:
        if step == "enter":
            tasks.append(asyncio.create_task(places.gate.enter(None)))
        elif step == "leave" and places.taken:
            _leave_held(places, tasks)
        elif step == "cancel" and tasks:
            tasks[nth % len(tasks)].cancel()
        elif step == "pass":
            await asyncio.sleep(0)
        else:
            await settle()
        assert len(places.taken) + len(places.free) == count
    for _ in range(len(tasks) + 1):
        await settle()
        _leave_held(places, tasks)
    await settle()
    assert all(task.done() for task in tasks)
    assert sorted(places.free) == list(range(count))
    assert places.gate.waiting == 0


def _leave_held(places: Places, tasks: list[asyncio.Task[int]]) -> None:
    for place in list(_held(tasks)):
        if place in places.taken:
            places.leave(place)


def _held(tasks: list[asyncio.Task[int]]) -> Iterator[int]:
    """The places of callers that were served and have not left; each is left once."""
    for task in tasks:
        if task.done() and not task.cancelled() and not getattr(task, "has_left", False):
            task.has_left = True  # type: ignore[attr-defined]
            yield task.result()


@virtual
async def test_whoever_can_go_does_so_as_soon_as_the_one_before_who_could_not_has_left() -> None:
    gate: Gate[str, str] = Gate(lambda item: Later() if item == "large" else item, lambda _place: None)
    large, small = (asyncio.create_task(gate.enter(item)) for item in ("large", "small"))
    await settle()
    assert not small.done()
    large.cancel()
    await settle()
    assert small.done()
    assert large.cancelled()


@virtual
async def test_a_caller_who_comes_while_a_cancelled_one_is_still_in_the_queue_is_not_forgotten() -> None:
    gate: Gate[str, str] = Gate(lambda item: Later() if item == "large" else item, lambda _place: None)
    large = asyncio.create_task(gate.enter("large"))
    await settle()
    large.cancel()
    assert await gate.enter("small") == "small"
