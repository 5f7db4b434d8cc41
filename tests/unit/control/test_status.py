"""Rates, ends, what is left and how it is said: as tables."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from control.status.document import Lag, StatusDocument
from control.status.eta import WINDOW_SECONDS, eta, rate
from control.status.moment import Facts, document
from control.status.showing import lines, screen

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOTHING: dict[str, Any] = dict.fromkeys(
    "state paused_for topic read rejected deduplicated skipped published budget_usd budget_tokens"
    " created_at finished_at".split()
)


def run(**values: Any) -> dict[str, Any]:
    told = {"rejected": 0, "deduplicated": 0, "skipped": 0, "published": 0, "read": 0, "created_at": NOW}
    return {**NOTHING, "job": "reviews", "run": "r1", "state": "running", "shown": True, **told, **values}


def count(rows: int, status: str = "succeeded", **values: Any) -> dict[str, Any]:
    names = {"job": "reviews", "run": "r1", "status": status, "rows": rows}
    return {"reason": None, "live": False, "seconds_ago": None, **names, **values}


def told(runs: list[dict[str, Any]], *counts: dict[str, Any], lag: list[Lag] | None = None) -> StatusDocument:
    return document(Facts(NOW, runs, counts, [], [], [], []), lag)


def part(lag: int, topic: str = "t") -> Lag:
    return Lag(topic=topic, partition=0, committed=0, end=lag, lag=lag)


@pytest.mark.parametrize(
    ("ended", "mean", "seconds"),
    [
        ({}, None, 0),
        ({0: 5, 1: 5}, None, 0),
        ({0: 10, 1: 10, 2: 3}, 10.0, 2),
        # The second in which the first row ended is not full.
        ({**dict.fromkeys(range(20), 4), 20: 1}, 4.0, 20),
        # Pauses count.
        (dict.fromkeys(range(0, 100, 2), 2), 1.0, 98),
        (dict.fromkeys(range(WINDOW_SECONDS), 7), 7.0, WINDOW_SECONDS),
    ],
)
def test_the_rate_is_taken_over_full_seconds(ended: Mapping[int, int], mean: float | None, seconds: int) -> None:
    found = rate(ended)
    assert (found.mean if found else None) == (pytest.approx(mean) if mean else None)
    assert (found.seconds if found else 0) == seconds


def test_an_end_needs_something_left_and_a_rate() -> None:
    steady = rate(dict.fromkeys(range(101), 10))
    assert eta(None, steady) is None
    assert eta(5, None) is None
    nothing = eta(0, None)
    assert nothing is not None
    assert nothing.seconds == 0
    found = eta(1000, steady)
    assert found is not None
    assert found.seconds == pytest.approx(100)
    assert found.latest is not None
    assert found.earliest < 100 < found.latest < 120


@pytest.mark.parametrize("seed", range(50))
def test_after_a_tenth_of_a_steady_run_the_end_is_told_within_a_fifth(seed: int) -> None:
    draw = random.Random(seed)
    seconds, per_second = 600, 40
    ended = {second: draw.randint(per_second // 2, per_second * 3 // 2) for second in range(seconds // 10)}
    found = eta(seconds * per_second * 9 // 10, rate(ended))
    assert found is not None
    assert found.seconds == pytest.approx(seconds * 0.9, rel=0.2)
    assert found.earliest < found.seconds < (found.latest or 0)


def test_an_uneven_run_has_a_wide_range() -> None:
    steady, bursts = dict.fromkeys(range(100), 10), dict.fromkeys(range(0, 100, 40), 100)
    calm, wild = eta(1000, rate(steady)), eta(1000, rate({**bursts, 99: 1}))
    assert calm is not None
    assert wild is not None
    assert calm.latest is not None
    assert wild.latest is None or wild.latest - wild.earliest > calm.latest - calm.earliest


@pytest.mark.parametrize(
    ("values", "lag", "left"),
    [
        ({"read": 100, "published": 90}, None, 70),
        ({"read": 100, "published": 90}, [part(200)], 70),
        # Rows that another run has taken over, or that had their answer, end in no row of this run.
        ({"read": 100, "published": 90}, [part(3)], 3),
        ({"read": 100, "published": 90}, [part(0)], 0),
        ({"read": 100, "published": 90}, [part(0, "another")], 70),
        ({"read": 0, "published": 0}, [part(200)], None),
        ({"read": 100, "published": 90, "state": "done"}, None, 0),
        ({"read": 100, "published": 10}, None, 0),
    ],
)
def test_what_is_left(values: dict[str, Any], lag: list[Lag] | None, left: int | None) -> None:
    (found,) = told([run(topic="t", **values)], count(15), count(5, "failed", reason="timeout"), lag=lag).runs
    assert found.left == left
    assert (found.succeeded, found.failed, found.failed_by_reason) == (15, 5, {"timeout": 5})


def test_rows_of_unrecorded_runs_are_told_and_those_of_older_runs_are_not() -> None:
    runs = [run(), run(run="old", shown=False)]
    found = told(runs, count(1), count(2, run="old"), count(3, run=""), count(4, run="stray", status="claimed"))
    assert {one.run: (one.succeeded, one.released, one.state) for one in found.runs} == {
        "r1": (1, 0, "running"),
        "": (3, 0, None),
        "stray": (0, 4, None),
    }


def test_leases_tell_what_is_in_flight_from_what_nobody_holds() -> None:
    (found,) = told([run()], count(2, "claimed", live=True), count(1, "claimed")).runs
    assert (found.in_flight, found.released) == (2, 1)


def test_a_paused_run_has_no_end() -> None:
    counts = [count(10, seconds_ago=second) for second in range(20)]
    (going,) = told([run(read=900, published=900)], *counts).runs
    (stands,) = told([run(read=900, published=900, state="paused", paused_for="budget")], *counts).runs
    assert going.eta is not None
    assert stands.eta is None
    assert "paused for budget" in "\n".join(lines(told([run(state="paused", paused_for="budget")])))


@pytest.mark.parametrize("width", [80, 160])
def test_words_from_data_are_only_text(width: int) -> None:
    nasty = run(job="[red]x[/red]\x1b[2J", run="\u202er", topic="t", read=10, published=10)
    found = told([nasty], lag=[part(5)])
    shown = io.StringIO()
    Console(file=shown, width=width, force_terminal=True, no_color=True, markup=True).print(screen(found, width))
    for text in (shown.getvalue(), "\n".join(lines(found))):
        assert "\x1b[2J" not in text
        assert "\u202e" not in text
        assert "[red]" in text


def test_money_is_a_range() -> None:
    costs = {"job": "reviews", "run": "r1", "calls": 3, "low_usd": Decimal("0.1"), "high_usd": Decimal("0.25")}
    facts = Facts(NOW, [run(budget_usd=Decimal(50))], [], [costs], [], [], [])
    text = "\n".join(lines(document(facts, [])))
    assert "0.1000..0.2500 USD of 50" in text


def test_nothing_is_said_to_be_nothing() -> None:
    assert next(lines(told([]))) == "no runs: nothing has been published"
