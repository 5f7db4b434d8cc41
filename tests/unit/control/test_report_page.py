"""The report's page without a database: axes, charts, escaping, and the file that is whole or not there."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from control.cli import app
from control.report import answers, writing
from control.report.markup import element
from control.report.measured import Ended, Label, Latency, Outcome, Report, Retried, Slow, Spent
from control.report.page import page
from control.report.scale import Window, number, span, ticks, window
from control.report.svg import Bar, Caption, Series, bars, columns, lines
from control.status.document import End, RunStatus, Spend
from schemas.settings import SettingsError
from schemas.statuses import JobState, PausedFor, Reason
from tests.pages import Page

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'&\x1b"
CAPTION = Caption("key", "A title", "What it shows")
HOUR = Window(60, 29_700_000, 3)


def run(**values: object) -> RunStatus:
    usual: dict[str, object] = dict.fromkeys(RunStatus.model_fields)
    usual |= {"job": "j", "run": "r1", "succeeded": 0, "failed": 0, "failed_by_reason": {}, "in_flight": 0}
    return RunStatus.model_validate(usual | {"released": 0, "spend": Spend()} | values)


def report(word: str = "word", /, **values: object) -> Report:
    usual: dict[str, object] = {
        "job": word,
        "run": word,
        "at": NOON,
        "runs": [run(job=word, run=word)],
        "window": HOUR,
        "ended": [Ended(0, 5, 1)],
        "latencies": [Latency(2, 6, 10.0, 20.0, 30.0)],
        "outcomes": [Outcome(word, 6, 1, 1)],
        "spent": [Spent(word, word, 6, 100, 10, Decimal("0.1"), Decimal("0.2"), 1)],
        "labels": {word: [Label(word, 5)]},
        "slowest": [Slow(word, 30, word)],
        "retried": [Retried(word, 2)],
    }
    return Report(**(usual | values))  # type: ignore[arg-type]


def words(text: str) -> str:
    return " | ".join(Page(text).words)


@given(st.floats(0, 1e15), st.integers(2, 8), st.booleans())
def test_ticks_are_few_even_and_reach_the_top(top: float, most: int, whole: bool) -> None:
    marks = ticks(top, most, whole=whole)
    assert marks[0] == 0
    assert marks[-1] >= top * (1 - 1e-6)
    assert 2 <= len(marks) <= most + 2
    assert not whole or all(mark == int(mark) for mark in marks)


def test_ticks_are_round() -> None:
    assert ticks(97) == [0, 20, 40, 60, 80, 100]
    assert ticks(0.43) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert ticks(2, whole=True) == [0, 1, 2]
    assert ticks(0) == [0, 1]


@given(st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)), st.floats(0, 4e8))
def test_a_window_holds_both_its_ends_in_few_stretches(first: datetime, seconds: float) -> None:
    begin = first.replace(tzinfo=UTC)
    last = begin + timedelta(seconds=seconds)
    cut = window(begin, last)
    assert cut.at(0) <= begin
    assert last < cut.at(cut.stretches)
    assert 1 <= cut.stretches <= 61
    assert len(list(cut.labels())) <= 8


def test_the_axis_of_time_stands_at_round_times_and_names_the_day_where_there_are_two() -> None:
    hour = window(NOON, NOON + timedelta(minutes=58))
    assert (hour.width, [name for _, name in hour.labels()][:3]) == (60, ["12:00", "12:10", "12:20"])
    night = window(NOON, NOON + timedelta(hours=20))
    assert (night.width, next(night.labels())[1]) == (1800, "11-01 12:00")
    assert window(NOON, NOON + timedelta(days=50)).name(0) == "2026-11-01"
    assert [span(width) for width in (5, 120, 7200, 86_400)] == ["5 s", "2 min", "2 h", "1 d"]
    assert [number(value) for value in (2500.0, 0.0025, 1_500_000, 0)] == ["2,500", "0.0025", "1.5 M", "0"]


def boxes(svg: str, kind: str) -> list[dict[str, float]]:
    found = re.findall(rf'<rect ([^>]*)class="{kind}"', svg)
    return [{name: float(value) for name, value in re.findall(r'(\w+)="([\d.]+)"', one)} for one in found]


def test_columns_are_stacked_to_scale() -> None:
    svg = columns(CAPTION, HOUR, [Series("good", [40, 0, 10]), Series("bad", [10, None, 0])], "rows")
    good, bad = boxes(svg, "s0")[1:], boxes(svg, "s1")[1:]
    assert (len(good), len(bad)) == (2, 1)
    assert good[0]["height"] == pytest.approx(4 * good[1]["height"], abs=0.05)
    assert good[1]["height"] == pytest.approx(bad[0]["height"], abs=0.05)
    assert bad[0]["y"] + bad[0]["height"] == pytest.approx(good[0]["y"], abs=0.05)
    assert "40 good" in svg


def test_a_line_is_broken_where_nothing_is_known() -> None:
    svg = lines(CAPTION, Window(60, 0, 4), [Series("p50", [1, 2, None, 4])], "ms")
    path = re.findall(r'<path d="([^"]*)"', svg)
    assert len(path) == 1
    assert re.sub(r"[\d. ]+", "", path[0].replace("h0", "h")) == "MhLMh"


def test_a_bar_shows_how_far_it_may_reach_and_a_long_name_is_cut_and_told_whole() -> None:
    svg = bars(CAPTION, [Bar("n" * 40, 10, "10 to 20", 20), Bar("b", 20, "20")], "USD")
    full, pale = boxes(svg, "s0"), boxes(svg, "s0 light")
    assert full[1]["width"] == pale[0]["width"] == pytest.approx(2 * full[0]["width"], abs=0.02)
    assert f"<title>{'n' * 40}</title>{'n' * 23}…" in svg


def test_a_chart_says_what_it_is_to_those_who_do_not_see_it() -> None:
    for svg in (columns(CAPTION, HOUR, [Series("a", [1, 1, 1])], "rows"), bars(CAPTION, [], "rows")):
        assert 'role="img" aria-labelledby="key-title key-desc"' in svg
        assert '<title id="key-title">A title</title><desc id="key-desc">What it shows</desc>' in svg
        Page(svg)


@given(st.text())
def test_no_text_becomes_markup(text: str) -> None:
    inside = element("p", text, title=text)
    assert Page(inside).names == {"p"}
    assert "\x1b" not in element("p", "\x1b")


def test_words_from_data_are_text_wherever_they_stand() -> None:
    text = page(report(HOSTILE))
    read = Page(text)
    assert "script" not in read.names
    assert "<script" not in text
    assert "<script>alert(1)</script>\"'&\\x1b" in read.tables["slowest"][1][0]
    assert sum(HOSTILE[:8] in word for word in read.words) > 10


def test_the_page_needs_nothing_else_and_names_each_part_once() -> None:
    text = page(report())
    read = Page(text)
    assert read.loads == []
    assert not re.search(r"https?://|url\(|@import", text)
    assert len(read.ids) == len(set(read.ids))
    assert "default-src &#x27;none&#x27;" in text
    assert text.startswith("<!DOCTYPE html>")
    assert "All times are UTC" in text


def test_a_job_that_has_only_begun_has_a_page() -> None:
    empty: dict[str, object] = dict.fromkeys(("ended", "latencies", "outcomes", "spent", "slowest", "retried"), ())
    said = words(page(report(window=None, labels={}, runs=[run(state=JobState.RUNNING, left=9)], **empty)))
    assert "nothing has ended" in said
    assert "9 rows" in said
    assert "when the last row ends cannot be told" in said


def test_the_four_answers_are_of_all_runs_together() -> None:
    spend = Spend(calls=3, low_usd=Decimal(1), high_usd=Decimal(2), budget_usd=Decimal(5))
    end = End(seconds=60, earliest_seconds=50, latest_seconds=None)
    one = run(succeeded=6, failed=2, failed_by_reason={Reason.TIMEOUT: 1}, left=0, spend=spend, state=JobState.DONE)
    two = run(run="r2", succeeded=8, state=JobState.PAUSED, paused_for=PausedFor.BUDGET, left=4, eta=end, spend=spend)
    said = words(answers.cards([one, two, run(run="")]))
    for fact in ("3 runs", "1 done, 1 paused for budget, 1 unrecorded", "2 rows", "12.50% of 16", "4 rows",
                 "not known of 1 runs", "0:01:00 (0:00:50 to ?)", "2.0000 to 4.0000 USD", "in 6 calls"):  # fmt: skip
        assert fact in said
    assert "budget of" not in said
    assert "of a budget of 5 USD" in words(answers.cards([two]))
    assert answers.reasons([one]) == [("no reason told", 1), ("timeout", 1)]
    assert answers.between(Decimal(1), Decimal(2), unknown=1) == "1.0000 to unknown USD"


def test_of_many_runs_the_newest_are_listed() -> None:
    read = Page(answers.each_run([run(run=f"r{place}") for place in range(30)]))
    assert [row[0] for row in read.rows("runs")] == [f"r{place}" for place in range(29, 9, -1)]
    assert "the newest 20 of 30" in read.words


def test_a_file_is_written_whole_or_what_stood_there_stays(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    for text in ("first", "second"):
        writing.write(place, text)
        assert place.read_text() == text
    full = tmp_path / "folder"
    full.mkdir()
    (full / "inside").touch()
    with pytest.raises(writing.PageUnwritableError, match="folder"):
        writing.write(full, "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "page.html"]


@pytest.mark.parametrize("name", [".", "absent/page.html", "n" * 300])
def test_a_place_where_no_file_can_lie_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="--out"):
        writing.check(tmp_path / name)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--json"], "--json"),
        (["--job-file", "job.yaml"], "--job-file"),
        (["--against", "r1"], "--job-file"),
        (["--against", "r1", "--job-file", "job.yaml", "--out", "page.html"], "--out"),
        (["--out", "."], "is a directory"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: list[str], option: str) -> None:
    refused = CliRunner().invoke(app, ["report", "reviews", *words], env={"DATABASE_URL": ""})
    assert (refused.exit_code, option in refused.stderr) == (2, True)
