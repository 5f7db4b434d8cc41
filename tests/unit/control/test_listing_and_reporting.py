"""Counts, marks and pages: what `list` and `replay` say of the letters that went through them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from control.dead_letters import reporting
from control.dead_letters.choosing import batches
from control.dead_letters.decisions import LeftAlone, Why
from control.dead_letters.letters import Letter
from control.dead_letters.links import Key, Link, is_done, mark, unconfirmed_run
from control.dead_letters.listing import Listing, summary_lines
from control.dead_letters.reading import runs
from control.dead_letters.replay import Tally
from tests.unit.control.letters_at_hand import NOON, row, unread

SENT = Link(
    "log/0", 1, "run-1", "t/0/1", "t/0/1", "failed", "timeout", "j", "r", "t", 0, "log/0", 9, NOON, NOON, "succeeded"
)
LOST = replace(SENT, run="run-0", partition=None, log=None, log_offset=None, acknowledged_at=None)


def test_a_mark_says_what_became_of_a_letter() -> None:
    assert [mark(links) for links in ([], [LOST], [SENT], [LOST, SENT])] == [
        None,
        "unconfirmed",
        "replayed: succeeded",
        "replayed: succeeded",
    ]
    assert mark([replace(SENT, status=None)]) == "replayed: waits"


def test_a_link_without_a_place_is_taken_up_under_its_run() -> None:
    assert [unconfirmed_run(links) for links in ([], [LOST], [SENT], [LOST, SENT])] == [None, "run-0", None, None]
    assert (is_done([LOST]), is_done([LOST, SENT])) == (False, True)
    assert (LOST.place, SENT.place) == (None, "t/0/9")


def listed(letters: Iterable[Letter], limit: int | None) -> tuple[Listing, list[Letter]]:
    shown: list[Letter] = []

    def known(keys: Iterable[Key]) -> dict[Key, list[Link]]:
        return {key: [SENT] for key in keys if key[1] == 5}

    one = Listing(known, lambda pairs: shown.extend(letter for letter, _ in pairs), limit)
    one.run(letters)
    return one, shown


def test_all_are_counted_though_some_are_shown() -> None:
    letters = [unread(), *[row()] * 450]
    one, shown = listed(letters, 203)
    assert shown == letters[:203]
    assert one.summary == [
        {"kind": "failed", "reason": "timeout", "letters": 450, "replayed": 0},
        {"kind": "unreadable", "reason": "unknown_version", "letters": 1, "replayed": 1},
    ]
    assert summary_lines(one.summary, one.shown) == [
        "451 dead letters, 203 shown",
        "  failed  timeout  450",
        "  unreadable  unknown_version  1 (1 replayed)",
    ]
    assert len(listed(letters, None)[1]) == 451
    assert listed(letters, 0)[1] == []


def test_a_reason_that_somebody_forged_is_shown_as_text() -> None:
    one, _ = listed([unread(errors={"class.name": "\x1b[2J"})], None)
    assert summary_lines(one.summary, 1)[1] == "  unreadable  \\x1b[2J  1 (1 replayed)"


def test_batches_are_bounded_by_number_and_by_size() -> None:
    assert [len(batch) for batch in batches([row()] * 10_001)] == [5_000, 5_000, 1]
    assert [len(batch) for batch in batches([row(prompt_length=9_000_000)] * 5)] == [2, 2, 1]
    assert [len(batch) for batch in batches([row()] * 5, limit=2)] == [2, 2, 1]
    assert list(batches([])) == []


def test_offsets_that_lie_close_are_read_in_one_go() -> None:
    assert list(runs([7])) == [(7, 8)]
    assert list(runs([1, 5, 2_005, 4_006])) == [(1, 2_006), (4_006, 4_007)]


def test_the_counts_of_a_replay_add_up() -> None:
    tally = Tally()
    tally.sent.update({("failed", "timeout"): 2})
    tally.left.update({("unreadable", Why.UNREADABLE, "no_id"): 3, ("failed", Why.REPLAYED, "timeout"): 1})
    fields = reporting.as_fields(tally, "run-1", dry_run=False, acknowledged=2)
    assert (fields["matched"], fields["sent"], fields["run"]) == (6, 2, "run-1")
    assert sum(part["letters"] for part in fields["left_alone"]) == 4
    text = list(reporting.lines(fields))
    assert text[:2] == ["sent 2, acknowledged 2, run run-1", "  failed  timeout  2"]
    assert "  unreadable  still_unreadable (no_id)  3: cannot be read by this version either" in text
    dry = reporting.as_fields(tally, "run-1", dry_run=True, acknowledged=0)
    assert (dry["would_send"], dry["run"]) == (2, None)
    assert next(iter(reporting.lines(dry))) == "would send 2 (dry run: nothing was sent)"
    assert list(reporting.lines(reporting.as_fields(Tally(), "r", dry_run=True, acknowledged=0))) == [
        "no dead letter matches"
    ]


def test_each_letter_that_is_left_alone_is_told_save_those_replayed_before() -> None:
    told = reporting.left_line(row(id="r\x1b"), LeftAlone(Why.EXPIRED))
    assert told == "left alone: failed  headrace.prompts.reviews/2/17  reviews  r\\x1b: message_expired"
    assert reporting.left_line(row(), LeftAlone(Why.REPLAYED)) is None
