"""Which partitions are put by and taken up, through rebalances and changes of mind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from worker.core.offsets import Partition
from worker.core.parking import Parking

A, B, C = ("a", 0), ("a", 1), ("c", 0)
OWNED = [A, B, C]


def test_the_partitions_of_a_topic_are_parked_once_and_taken_up_when_it_is_no_longer_named() -> None:
    parking = Parking()
    parking.ask(["a"])
    assert parking.park(OWNED) == {A, B}
    assert parking.park(OWNED) == set()
    assert parking.due() == set()
    assert A in parking
    assert C not in parking
    parking.ask([])
    assert parking.due() == {A, B}
    parking.forget([A])
    assert parking.due() == {B}
    assert len(parking) == 1


def test_a_partition_that_arrives_is_parked_before_it_is_looked_at() -> None:
    parking = Parking()
    parking.ask(["a"])
    parking.assign([A, C])
    assert A in parking
    assert C not in parking
    assert parking.park(OWNED) == {B}


def test_a_partition_that_has_left_is_not_parked_when_it_comes_back_otherwise() -> None:
    parking = Parking()
    parking.ask(["a"])
    parking.park(OWNED)
    parking.forget([A])
    parking.ask([])
    assert parking.due() == {B}


def test_reading_again_is_parking_and_taking_up_at_once_and_only_once() -> None:
    parking = Parking()
    parking.ask_again(["a"])
    parking.ask_again(["c"])
    assert parking.park(OWNED) == {A, B, C}
    assert parking.due() == {A, B, C}
    parking.forget(OWNED)
    assert parking.park(OWNED) == set()


def test_a_topic_parked_again_before_it_was_taken_up_stays_parked() -> None:
    parking = Parking()
    parking.ask(["a"])
    parking.park(OWNED)
    parking.ask([])
    parking.ask(["a"])
    assert parking.due() == set()
    assert parking.park(OWNED) == set()


def test_a_wish_to_read_again_is_not_lost_at_whatever_step_of_the_other_thread_it_comes() -> None:
    for step in range(60):
        parking = Parking()
        found = _interrupted(lambda: parking.park(OWNED), step, lambda: parking.ask_again(["c"]))  # noqa: B023
        parking.forget(found)
        assert C in found | parking.park(OWNED), step


def _interrupted(act: Callable[[], set[Partition]], step: int, other: Callable[[], None]) -> set[Partition]:
    """Do the other before so many steps of the interpreter in `park`; after it, when there are not so many."""
    left = iter(range(step + 1))

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code is not Parking.park.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(left, None) == step:
            sys.settrace(None)
            other()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = act()
    finally:
        sys.settrace(before)
    if next(left, None) is not None:
        other()
    return found
