"""The sequences of offsets that have hurt others."""

from __future__ import annotations

from itertools import permutations

import pytest

from worker.core.offsets import OffsetTracker, Partition

P: Partition = ("t", 0)
Q: Partition = ("t", 1)


@pytest.fixture
def tracker() -> OffsetTracker:
    tracker = OffsetTracker()
    tracker.assign([P])
    return tracker


def test_one_unfinished_message_in_the_middle_holds_the_commit(tracker: OffsetTracker) -> None:
    tickets = {offset: tracker.track(P, offset) for offset in range(1, 11)}
    for offset in (10, 9, 8, 7, 6, 4, 3, 2, 1):
        tracker.done(tickets[offset])
    assert tracker.committable() == {P: 5}
    assert tracker.span(P) == 6
    tracker.done(tickets[5])
    assert tracker.committable() == {P: 11}


def test_every_order_of_finishing_ends_at_the_same_commit() -> None:
    for order in permutations(range(5)):
        tracker = OffsetTracker()
        tracker.assign([P])
        tickets = [tracker.track(P, offset) for offset in range(5)]
        seen = 0
        for offset in order:
            tracker.done(tickets[offset])
            commit = tracker.committable().get(P, 0)
            assert commit >= seen
            seen = commit
        assert seen == 5


def test_a_late_end_from_an_earlier_ownership_does_not_finish_the_message_read_again(tracker: OffsetTracker) -> None:
    old = tracker.track(P, 17)
    tracker.forget([P])
    tracker.assign([P])
    new = tracker.track(P, 17)
    tracker.done(old)
    assert not tracker.owns(old)
    assert tracker.owns(new)
    assert tracker.committable() == {}
    tracker.done(new)
    assert tracker.committable() == {P: 18}


def test_assigning_again_without_a_revocation_is_a_new_ownership_too(tracker: OffsetTracker) -> None:
    old = tracker.track(P, 3)
    tracker.assign([P])
    tracker.done(old)
    assert tracker.committable() == {}


def test_other_partitions_are_left_alone(tracker: OffsetTracker) -> None:
    tracker.assign([Q])
    done = tracker.track(P, 0)
    tracker.track(Q, 0)
    tracker.done(done)
    tracker.forget([Q])
    assert tracker.committable() == {P: 1}
    assert tracker.committable([Q]) == {}


def test_what_the_broker_has_accepted_is_not_committed_again(tracker: OffsetTracker) -> None:
    tracker.done(tracker.track(P, 0))
    tracker.committed(tracker.committable())
    assert tracker.committable() == {}
    assert tracker.positions == {P: 1}


def test_a_gap_in_the_log_is_no_unfinished_message(tracker: OffsetTracker) -> None:
    for offset in (0, 5, 99):
        tracker.done(tracker.track(P, offset))
    assert tracker.committable() == {P: 100}


def test_nothing_from_a_passed_over_message_on_is_committed_or_remembered_until_a_restart() -> None:
    tracker = OffsetTracker()
    tracker.assign([P])
    first, passed, *others = [tracker.track(P, offset, at=float(offset + 1)) for offset in range(5)]
    tracker.pass_over(passed)
    assert {tracker.oldest} == {1.0}
    for ticket in (first, *others, tracker.track(P, 5)):
        assert tracker.owns(ticket)
        tracker.done(ticket)
    assert tracker.committable() == {P: 1}
    assert tracker.span(P) == 1
    assert {tracker.oldest} == {None}
    tracker.restart([P])
    tracker.done(passed)
    tracker.done(tracker.track(P, 1))
    assert tracker.committable() == {P: 2}
