"""What becomes of a letter in a replay, by tables."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from control.dead_letters.decisions import (
    MEANINGS,
    LeftAlone,
    Standing,
    Why,
    asked_anew,
    judge,
    linked,
    read,
    target,
    waiting,
)
from control.dead_letters.letters import Letter, Place, Raw
from schemas.message import Prompt, decode
from schemas.topics import PROMPTS_PATTERN
from tests.unit.control.letters_at_hand import NOON, SOURCE, TOPIC, TOPIC_ID, mark, raw, row, unread, value

LOG = f"{TOPIC_ID}/2"


def prompt(body: bytes | None = None) -> Prompt:
    found = decode(b"r-1", value() if body is None else body)
    assert isinstance(found, Prompt)
    return found


def standing(
    status: str = "failed", text: str = "Why?", log: str = LOG, offset: int = 17, hours: float = 0
) -> Standing:
    return Standing(status, mark(text), log, offset, NOON + timedelta(hours=hours))


def test_every_reason_has_its_meaning() -> None:
    assert set(MEANINGS) == set(Why)


@pytest.mark.parametrize(
    ("letter", "why"),
    [
        (unread(errors={}), Why.NO_SOURCE),
        (unread(errors={**SOURCE, "topic": "payments"}), Why.FOREIGN),
        (unread(errors={**SOURCE, "topic": "headrace.dead-letters"}), Why.FOREIGN),
        (unread(errors={**SOURCE, "topic": "headrace.prompts.gone"}), Why.NO_TOPIC),
        (row(log="another-id/2"), Why.RECREATED),
        (row(log=None, log_offset=None), Why.NO_SOURCE),
    ],
)
def test_a_letter_goes_back_only_to_a_topic_that_workers_read(letter: Letter, why: Why) -> None:
    assert target(letter, PROMPTS_PATTERN, frozenset({TOPIC, "payments", "headrace.dead-letters"})) == LeftAlone(why)


def test_the_target_is_the_source() -> None:
    assert [target(letter, PROMPTS_PATTERN, frozenset({TOPIC})) for letter in (unread(), row())] == [TOPIC, TOPIC]


@pytest.mark.parametrize(
    ("letter", "message", "left"),
    [
        (row(), None, LeftAlone(Why.EXPIRED)),
        (row(), raw(value(prompt="Changed")), LeftAlone(Why.CHANGED)),
        (row(), raw(value(job="tickets")), LeftAlone(Why.CHANGED)),
        (row(), raw(value(id="r-2"), key=b"r-2"), LeftAlone(Why.CHANGED)),
        (row(fingerprint=None), raw(), LeftAlone(Why.CHANGED)),
        (unread(), raw(b"{}"), LeftAlone(Why.UNREADABLE, "no_id")),
        (unread(), raw(key=b"other"), LeftAlone(Why.UNREADABLE, "key_mismatch")),
        (unread(), raw(value(prompt="Mutated", fingerprint=mark())), LeftAlone(Why.UNREADABLE, "invalid_field")),
    ],
)
def test_a_message_is_validated_anew(letter: Letter, message: Raw | None, left: LeftAlone) -> None:
    assert read(letter, message) == left


def test_a_message_without_a_value_was_too_large_or_is_a_tombstone() -> None:
    bare = Raw(Place("dlq", 0, 1), b"r-1", None, (), NOON)
    omitted = Raw(Place("dlq", 0, 1), b"r-1", None, (("headrace.value.omitted.bytes", b"9"),), NOON)
    assert (read(unread(), bare), read(unread(), omitted)) == (LeftAlone(Why.UNREADABLE), LeftAlone(Why.OMITTED))


def test_what_can_be_read_is_read() -> None:
    assert read(unread(), raw()) == read(row(), raw()) == prompt()


@pytest.mark.parametrize(
    ("letter", "stands", "why"),
    [
        (unread(), None, None),
        (unread(), standing("succeeded"), Why.ANSWERED),
        (unread(), standing("claimed"), Why.CLAIMED),
        (unread(), standing("failed"), Why.FAILED_SINCE),
        (unread(), standing("succeeded", "newer", offset=18, hours=-1), Why.SUPERSEDED),
        (unread(), standing("succeeded", "older", offset=16, hours=-1), None),
        (unread(), standing("claimed", "newer", log="other/1", hours=1), Why.SUPERSEDED),
        (unread(), standing("claimed", "older", log="other/1", hours=-1), None),
        # The topic was made again: offsets say older, time says newer.
        (unread(), standing("succeeded", "newer", offset=3, hours=1), Why.SUPERSEDED),
        (unread(), Standing("succeeded", None, None, None, None), Why.SUPERSEDED),
        (row(), standing(), None),
        (row(), standing("succeeded"), Why.ANSWERED),
        (row(), standing("claimed"), Why.CLAIMED),
        (row(), standing(offset=18), Why.FAILED_SINCE),
        (row(), standing("failed", "newer"), Why.SUPERSEDED),
        (row(), None, Why.SUPERSEDED),
    ],
)
def test_a_letter_never_brings_an_older_version_back(
    letter: Letter, stands: Standing | None, why: Why | None
) -> None:
    alone = judge(letter, prompt(), stands, LOG)
    assert (alone.why if alone else None) is why


def test_the_time_in_a_message_counts_before_that_of_its_death() -> None:
    early = prompt(value(published_at=(NOON - timedelta(hours=3)).isoformat()))
    between = standing("succeeded", "newer", log="other/1", hours=-2)
    assert judge(unread(), early, between, LOG) == LeftAlone(Why.SUPERSEDED)
    assert judge(unread(), prompt(), between, LOG) is None


def test_a_later_message_that_waits_is_found_by_key_or_id_and_job() -> None:
    def message(offset: int, partition: int = 2, key: bytes | None = b"r-1", **fields: Any) -> Raw:
        return raw(value(**fields), key=key, place=Place(TOPIC, partition, offset))

    rows = {("reviews", "r-1"): Place(TOPIC, 2, 17)}
    assert waiting(rows, [message(18)]) == {("reviews", "r-1")}
    assert waiting(rows, [message(0, partition=3)]) == {("reviews", "r-1")}
    assert waiting(rows, [message(18, key=None)]) == {("reviews", "r-1")}
    assert waiting(rows, [message(17), message(3)]) == set()
    assert waiting(rows, [message(18, job="tickets"), message(19, key=b"r-2", id="r-2")]) == set()
    assert waiting(rows, [raw(b"x", place=Place(TOPIC, 2, 18))]) == set()


def test_a_row_is_asked_anew_by_the_same_request_of_another_run() -> None:
    before = value(run="run-1", prompt="Привет 🦊", params={"temperature": 0.1}, extra={"kept": [1]}, v=1)
    after = asked_anew(b"\xef\xbb\xbf" + before, "run-2", NOON)
    old, new = decode(b"r-1", before), decode(b"r-1", after)
    assert isinstance(old, Prompt)
    assert isinstance(new, Prompt)
    assert (new.fingerprint, new.run, new.published_at) == (old.fingerprint, "run-2", NOON)
    assert json.loads(after)["extra"] == {"kept": [1]}
    assert "Привет 🦊" in after.decode()


def test_half_a_surrogate_pair_survives() -> None:
    before = b'{"id": "r-1", "prompt": "a\\ud83d"}'
    old, new = decode(None, before), decode(None, asked_anew(before, "run-2", NOON))
    assert isinstance(old, Prompt)
    assert isinstance(new, Prompt)
    assert new.fingerprint == old.fingerprint


def test_a_replay_names_its_letter_and_the_first_of_its_line() -> None:
    message = raw(headers=(("traceparent", b"00-ab"), ("headrace.value.omitted.bytes", b"1")))
    headers, root = linked(unread(), message)
    ref = b"headrace.dead-letters/0/5"
    assert headers == (("traceparent", b"00-ab"), ("headrace.replay.of", ref), ("headrace.replay.root", ref))
    assert root == ref.decode()
    again, root = linked(
        unread(), raw(headers=(("headrace.replay.of", b"dlq/0/3"), ("headrace.replay.root", b"dlq/0/1")))
    )
    assert again == (("headrace.replay.of", ref), ("headrace.replay.root", b"dlq/0/1"))
    assert root == "dlq/0/1"
