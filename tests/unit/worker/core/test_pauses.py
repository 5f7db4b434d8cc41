"""Which partitions are paused and resumed, against a client that keeps or forgets pauses as it likes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.core.offsets import Partition
from worker.core.pauses import Pauses

P: Partition = ("t", 0)
Q: Partition = ("t", 1)


def test_what_is_to_be_held_back_is_paused_once_and_resumed_once() -> None:
    pauses = Pauses()
    pauses.assign([P, Q])
    assert pauses.due([P, Q], set()) == (set(), {P, Q})
    pauses.did_resume({P, Q})
    assert pauses.due([P, Q], {P}) == ({P}, set())
    pauses.did_pause({P})
    assert pauses
    assert pauses.due([P, Q], {P}) == (set(), set())
    assert pauses.due([P, Q], set()) == (set(), {P})
    pauses.did_resume({P})
    assert not pauses


def test_a_partition_that_left_paused_and_came_back_is_resumed() -> None:
    pauses = Pauses()
    pauses.did_pause({P})
    pauses.forget([P])
    assert pauses.due([], set()) == (set(), set())
    pauses.assign([P])
    assert pauses.due([P], set()) == (set(), {P})


def test_a_partition_that_comes_back_while_all_is_full_is_paused_again() -> None:
    pauses = Pauses()
    pauses.did_pause({P})
    pauses.assign([P])
    assert pauses.due([P], {P}) == ({P}, set())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["assign", "leave", "regulate"]),
        st.sets(st.sampled_from([P, Q])),
        st.booleans(),
    ),
    max_size=30,
)


@given(STEPS)
def test_after_each_round_the_client_holds_back_exactly_what_is_wanted(
    steps: list[tuple[str, set[Partition], bool]],
) -> None:
    pauses, owned, client = Pauses(), set[Partition](), set[Partition]()
    for step, partitions, keeps in steps:
        if step == "assign":
            pauses.assign(partitions)
            owned |= partitions
        elif step == "leave":
            pauses.forget(partitions)
            owned -= partitions
            client = client if keeps else client - partitions
        else:
            pause, resume = pauses.due(owned, partitions & owned)
            client = (client | pause) - resume
            pauses.did_pause(pause)
            pauses.did_resume(resume)
            assert client & owned == partitions & owned
