"""One queue a topic: taken by weight, within what is allowed, and no topic fills another's room."""

from __future__ import annotations

from collections import Counter

from tests.fakes.samples import record
from worker.core.offsets import Ticket
from worker.lanes import Lanes
from worker.ports import Taken, any_number


def item(topic: str, offset: int = 0, size: int = 10, partition: int = 0) -> Taken:
    of = record(b"x" * size, offset=offset, partition=partition, topic=topic)
    return Taken(of, Ticket((topic, partition), offset, 1))


def lanes(messages: int = 80, nbytes: int = 80_000, **filled: int) -> Lanes:
    made = Lanes(messages, nbytes)
    for topic, count in filled.items():
        for offset in range(count):
            made.put(item(topic, offset))
    return made


def topics(taken: list[Taken]) -> Counter[str]:
    return Counter(one.record.topic for one in taken)


def test_topics_are_taken_by_weight_and_each_in_order() -> None:
    full = lanes(a=40, b=40)
    full.weights = {"a": 4.0}
    taken = full.take(25, any_number)
    assert topics(taken) == {"a": 20, "b": 5}
    assert [one.record.offset for one in taken if one.record.topic == "b"] == [0, 1, 2, 3, 4]


def test_a_topic_gives_no_more_than_it_is_allowed_and_leaves_the_rest_to_others() -> None:
    full = lanes(a=40, b=40)
    assert topics(full.take(20, {"a": 3, "b": 0}.__getitem__)) == {"a": 3}
    assert topics(full.take(20, {"a": 3, "b": 100}.__getitem__)) == {"a": 3, "b": 17}


def test_what_is_not_there_is_not_given() -> None:
    few = lanes(a=2, b=1)
    assert topics(few.take(20, any_number)) == {"a": 2, "b": 1}
    assert few.take(20, any_number) == []
    assert few.topics == set()


def test_a_topic_alone_is_full_before_the_room_is_and_half_empty_before_it_goes_on() -> None:
    alone = lanes(a=59)
    assert alone.full == set()
    assert alone.step == 1
    alone.put(item("a"))
    assert alone.full == {"a"}
    assert alone.room == 20
    alone.take(29, any_number)
    assert alone.full == {"a"}
    alone.take(1, any_number)
    assert alone.full == set()


def test_topics_that_wait_together_have_equal_parts() -> None:
    two = lanes(a=60)
    two.put(item("b"))
    assert two.full == {"a"}
    assert two.step == 19
    for offset in range(39):
        two.put(item("b", offset))
    assert two.full == {"a", "b"}


def test_a_topic_of_large_messages_is_full_by_its_bytes() -> None:
    large = lanes(nbytes=1000)
    large.put(item("a", size=880))
    assert large.full == {"a"}
    assert large.room > 0
    large.put(item("b", size=200))
    assert large.room == 0


def test_messages_of_partitions_that_left_free_the_room_of_their_topic() -> None:
    full = lanes(a=70)
    full.put(item("a", partition=1))
    full.put(item("b"))
    assert full.full == {"a"}
    full.drop({("a", 0), ("c", 0)})
    assert full.full == set()
    assert full.room == 78
    assert topics(full.take(9, any_number)) == {"a": 1, "b": 1}


def test_a_key_counts_and_a_tombstone_counts_nothing() -> None:
    made = lanes(nbytes=3)
    made.put(Taken(record(b"", key=None, topic="a"), Ticket(("a", 0), 0, 1)))
    assert made.room > 0
    made.put(Taken(record(b"", key=b"key", topic="a"), Ticket(("a", 0), 1, 1)))
    assert made.room == 0
