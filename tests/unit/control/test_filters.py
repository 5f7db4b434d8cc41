"""Which letters are meant, and what the command line may say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control.dead_letters.filters import Asked, Filters, read_filters
from schemas.settings import SettingsError, TopicSettings
from schemas.statuses import LetterKind
from tests.unit.control.letters_at_hand import NOON, TOPIC, row, unread, value

NAMES = TopicSettings()


def takes(**filters: Any) -> tuple[bool, bool]:
    """Whether an unreadable letter and a failed one are meant."""
    return Filters(**filters).takes(unread()), Filters(**filters).takes(row())


@pytest.mark.parametrize(
    ("filters", "taken"),
    [
        ({}, (True, True)),
        ({"kinds": frozenset({LetterKind.FAILED})}, (False, True)),
        ({"kinds": frozenset({LetterKind.UNREADABLE})}, (True, False)),
        ({"job": "reviews", "id": "r-1", "topic": TOPIC}, (True, True)),
        ({"job": "tickets"}, (False, False)),
        ({"id": "r-2"}, (False, False)),
        ({"topic": "headrace.prompts"}, (False, False)),
        ({"reasons": frozenset({"timeout", "no_id"})}, (False, True)),
        ({"reasons": frozenset({"unknown_version"})}, (True, False)),
        ({"since": NOON}, (True, True)),
        ({"since": NOON + timedelta(microseconds=1)}, (False, False)),
        ({"until": NOON}, (False, False)),
        ({"until": NOON + timedelta(microseconds=1)}, (True, True)),
    ],
)
def test_each_filter(filters: dict[str, Any], taken: tuple[bool, bool]) -> None:
    assert takes(**filters) == taken


def test_a_message_whose_key_differs_from_its_id_is_found_under_both() -> None:
    letter = unread(body=value(id="r-9"), key=b"r-8")
    assert [Filters(id=id_).takes(letter) for id_ in ("r-9", "r-8", "r-7")] == [True, True, False]


def test_a_letter_without_a_time_is_in_no_span_of_time() -> None:
    timeless = row(completed_at=None)
    assert Filters().takes(timeless)
    assert not Filters(since=NOON).takes(timeless)
    assert not Filters(until=NOON).takes(timeless)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T08:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T08:00:00+05:30", datetime(2026, 1, 31, 2, 30, tzinfo=UTC)),
        ("2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("12h", NOON - timedelta(hours=12)),
        ("1.5d", NOON - timedelta(days=1.5)),
    ],
)
def test_times_are_utc_or_ages(text: str, at: datetime) -> None:
    assert read_filters(Asked(since=text), NAMES, NOON).since == at


def test_what_is_asked_is_what_is_meant() -> None:
    asked = Asked(LetterKind.FAILED, "reviews", "r-1", ("timeout",), TOPIC, "2d", "1d")
    assert read_filters(asked, NAMES, NOON) == Filters(
        frozenset({LetterKind.FAILED}),
        "reviews",
        "r-1",
        frozenset({"timeout"}),
        TOPIC,
        NOON - timedelta(days=2),
        NOON - timedelta(days=1),
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked(since="soon"), "--since 'soon'"),
        (Asked(until="9999999999d"), "--until '9999999999d'"),
        (Asked(since="1h", until="2h"), "--since is not before --until"),
        (Asked(reason=("boredom",)), "--reason 'boredom'"),
        (Asked(kind=LetterKind.FAILED, reason=("no_id",)), "--reason 'no_id'"),
        (Asked(kind=LetterKind.UNREADABLE, reason=("timeout",)), "--reason 'timeout'"),
        (Asked(id=" r-1"), "--id has surrounding white space"),
        (Asked(job=" "), "--job is empty"),
        (Asked(topic="headrace.dead-letters"), "--topic"),
        (Asked(topic="a b"), "--topic"),
        (Asked(limit=0), "--limit must be 1 or more"),
    ],
)
def test_what_nobody_can_mean_is_named(asked: Asked, said: str) -> None:
    with pytest.raises(SettingsError) as told:
        read_filters(asked, NAMES, NOON)
    assert [said in problem for problem in told.value.problems] == [True]


def test_everything_wrong_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as told:
        read_filters(Asked(id="", since="x", until="y", reason=("a", "b"), limit=-1), None, NOON)
    assert len(told.value.problems) == 6
