"""Dead letters as they come: whatever bytes and headers there are, a letter is made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.dead_letters.letters import Place, Raw, unreadable
from schemas.statuses import LetterKind
from tests.unit.control.letters_at_hand import NOON, SOURCE, TOPIC, TOPIC_ID, raw, row, unread, value


@pytest.mark.parametrize("place", [Place("a", 0, 0), Place("headrace.dead-letters", 11, 2**63 - 1)])
def test_a_place_is_read_as_it_is_written(place: Place) -> None:
    assert Place.parse(str(place)) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a/0",
        "a/0/",
        "a/0/1/2",
        "a/-1/0",
        "a/0/-1",
        "a/0/1.5",
        "a/0/1 ",
        "a/0/1\n",
        "a/٣/1",
        "a b/0/1",
        "../0/1",
        "/0/1",
        "a/2147483648/0",
        f"a/0/{2**63}",
        f"a/0/{'9' * 5000}",
    ],
)
def test_what_is_no_place_is_none(text: str) -> None:
    assert Place.parse(text) is None


def test_an_unreadable_message_tells_why_and_where_it_came_from() -> None:
    letter = unread(body=value(id="r-9", job="tickets"), key=b"r-8")
    assert (letter.kind, letter.ref, letter.key) == (LetterKind.UNREADABLE, "headrace.dead-letters/0/5", ("DLQ/0", 5))
    assert (letter.reason, letter.source, letter.at) == ("unknown_version", Place(TOPIC, 2, 17), NOON)
    assert (letter.job, letter.id, letter.root, letter.of) == ("tickets", "r-9", letter.ref, None)


@pytest.mark.parametrize(
    ("body", "key", "names"),
    [
        (b"not json", b"k", ("reviews", "k")),
        (b"\x00\x00\x00\x00\x01{}", None, ("reviews", None)),
        (b"[1]", b"\xff", ("reviews", "\\xff")),
        (b"{}", b"k", ("default", "k")),
        (b'{"job": 7, "id": 7}', b"k", ("default", "k")),
        (b"[" * 100_000, b"k", ("reviews", "k")),
    ],
)
def test_job_and_id_are_told_as_far_as_they_can_be(
    body: bytes, key: bytes | None, names: tuple[str, str | None]
) -> None:
    letter = unread(body=body, key=key)
    assert (letter.job, letter.id) == names


def test_a_topic_that_names_no_job_gives_none() -> None:
    letter = unread(body=b"x", errors={**SOURCE, "topic": "headrace.prompts"})
    assert (letter.job, letter.source) == (None, Place("headrace.prompts", 2, 17))


@pytest.mark.parametrize("wrong", [{"offset": "x"}, {"topic": "a b"}, {"partition": ""}])
def test_headers_that_name_no_place_give_no_source(wrong: dict[str, str]) -> None:
    assert unread(errors={**SOURCE, **wrong}).source is None


def test_what_the_last_writer_said_counts() -> None:
    brought = (("__connect.errors.topic", b"elsewhere"), ("__connect.errors.class.name", b"boredom"))
    letter = unread(headers=brought)
    assert (letter.source, letter.reason) == (Place(TOPIC, 2, 17), "unknown_version")


def test_a_letter_that_was_a_replay_knows_its_line() -> None:
    line = (("headrace.replay.of", b"dlq/0/3"), ("headrace.replay.root", b"dlq/0/1"))
    assert (unread(headers=line).of, unread(headers=line).root) == ("dlq/0/3", "dlq/0/1")
    forged = (("headrace.replay.of", b"\x1b[31m"), ("headrace.replay.root", None))
    assert (unread(headers=forged).of, unread(headers=forged).root) == (None, "headrace.dead-letters/0/5")


def test_a_failed_row_lies_where_its_message_does() -> None:
    letter = row()
    assert (letter.kind, letter.ref, letter.source) == (LetterKind.FAILED, f"{TOPIC}/2/17", Place(TOPIC, 2, 17))
    assert letter.key == (f"{TOPIC_ID}/2", 17)
    assert row(log=f"{TOPIC}/2").source == Place(TOPIC, 2, 17)


@pytest.mark.parametrize(
    ("where", "ref"),
    [
        ({"log": "another-id/2"}, "another-id/2/17"),
        ({"log": None, "log_offset": None}, "?/?"),
        ({"log": "headrace.other/2"}, "headrace.other/2/17"),
    ],
)
def test_a_row_whose_topic_is_not_there_has_no_source(where: dict[str, object], ref: str) -> None:
    assert (row(**where).source, row(**where).ref) == (None, ref)


@given(
    st.binary(max_size=50) | st.none(),
    st.binary(max_size=20) | st.none(),
    st.lists(
        st.tuples(st.sampled_from([*(f"__connect.errors.{name}" for name in SOURCE), "x"]), st.binary() | st.none())
    ),
)
def test_any_message_makes_a_letter(
    body: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    letter = unreadable(Raw(Place("dlq", 0, 1), key, body, tuple(headers), None), "x/0")
    assert letter.ref == "dlq/0/1"


def test_a_letter_shows_nothing_of_itself() -> None:
    assert "Why?" not in repr(unread()) + repr(row()) + repr(raw())
