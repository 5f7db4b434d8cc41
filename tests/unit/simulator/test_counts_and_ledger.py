from __future__ import annotations

import json
from pathlib import Path

from simulator.ledger import Entry, Ledger
from simulator.stats import Stats

ENTRY = Entry("a:\n猫", 2, 3, "00ff", 1.5, 2.5, 100, "answered", 200, billed=True)


def test_calls_and_bills_are_counted_in_all_and_per_id() -> None:
    stats = Stats()
    assert [stats.begin(row, None) for row in ("a", "b", "a")] == [1, 1, 2]
    for row in ("a", "a", "b"):
        stats.bill(row)
    shown = stats.shown(with_ids=True)
    assert shown["ids"] == {"a": {"calls": 2, "billed": 2}, "b": {"calls": 1, "billed": 1}}
    assert (shown["calls"], shown["billed"], shown["distinct_ids"], shown["duplicate_bills"]) == (3, 3, 2, 1)
    assert "ids" not in stats.shown(with_ids=False)


def test_open_calls_and_their_most_are_known() -> None:
    stats = Stats()
    for _ in range(3):
        stats.open()
    stats.end("answered", 200, was_open=True)
    stats.end("limited", 429, was_open=False)
    stats.open()
    assert (stats.in_flight, stats.max_in_flight) == (3, 3)


def test_ends_are_counted_by_outcome_and_by_status_sent() -> None:
    stats = Stats()
    stats.end("answered", 200, was_open=False)
    stats.end("limited", 429, was_open=False)
    stats.end("hung", None, was_open=False)
    shown = stats.shown(with_ids=False)
    assert shown["status"] == {"200": 1, "429": 1}
    assert shown["outcomes"] == {"answered": 1, "hung": 1, "limited": 1}
    assert (shown["answers"], shown["limited"]) == (1, 1)


def test_ids_above_the_bound_are_counted_together_and_trusted_for_their_attempt() -> None:
    stats = Stats(max_ids=2)
    assert [stats.begin(row, 7) for row in ("a", "b", "c", "c", "a")] == [1, 1, 7, 7, 2]
    assert stats.begin("d", None) == 1
    for _ in range(2):
        stats.bill("c")
    shown = stats.shown(with_ids=True)
    assert (shown["overflow"], shown["distinct_ids"], shown["billed"]) == (3, 2, 2)
    assert shown["ids"].keys() == {"a", "b"}
    assert shown["duplicate_bills"] == 0


def test_each_entry_is_one_line_that_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.jsonl"
    for _ in range(2):
        ledger = Ledger(path)
        ledger.write(ENTRY)
        ledger.close()
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[0]) == {
        "id": "a:\n猫",
        "attempt": 2,
        "number": 3,
        "body_sha256": "00ff",
        "t_start": 1.5,
        "t_end": 2.5,
        "bytes_sent": 100,
        "outcome": "answered",
        "status": 200,
        "billed": True,
    }
