"""The checks themselves: ledgers that break one invariant each, so that a passing run says something."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.chaos.history import Change
from tests.chaos.invariants import check
from tests.chaos.ledgers import Fault, Halt, Ledgers
from tests.chaos.manifest import Acked, Manifest
from tests.chaos.sampler import Samples


def _at(second: float) -> datetime:
    return datetime.fromtimestamp(1_000 + second, UTC)


def _change(id_: str, second: float, old: str | None, new: str | None, **more: Any) -> Change:
    usual = {"old_fence": 0, "new_fence": 1, "old_fingerprint": "f", "new_fingerprint": "f"}
    place = {"old_offset": 0, "new_offset": 0, "worker": "host-11-ab"}
    return Change(_at(second), id_, old, new, **{**usual, **place, **more})


def _call(id_: str, second: float, billed: bool = True) -> dict[str, Any]:
    return {"id": id_, "billed": billed, "t_start": 1_000 + second, "t_end": 1_001 + second}


def _row(id_: str, **more: Any) -> dict[str, Any]:
    usual = {"status": "succeeded", "reason": None, "fingerprint": "f", "result": "answer", "completed_at": _at(3)}
    return {"id": id_, **usual, **more}


def _sound() -> Ledgers:
    manifest = Manifest()
    for offset, id_ in enumerate(("a", "b")):
        manifest.add(Acked(id_, (0, offset), "f", "answer"))
    manifest.add(Acked("bad", (0, 2)))
    return Ledgers(
        manifest=manifest,
        calls=[_call("a", 1), _call("b", 1)],
        results=[_row("a"), _row("b")],
        attempts=[{"id": "a", "billed": "yes"}, {"id": "b", "billed": "yes"}],
        letters=[{"__connect.errors.partition": b"0", "__connect.errors.offset": b"2"}],
        samples=Samples(taken=5, checked=3),
        history=[_change(id_, s, old, new) for id_ in "ab" for s, old, new in ((0.5, None, "claimed"),)]
        + [_change(id_, 3, "claimed", "succeeded", old_fence=1) for id_ in "ab"],
        planned=2,
        searched={"log of worker": 5_000, "table results": 700},
    )


def _problems(**changed: Any) -> str:
    return " ".join(check(replace(_sound(), **changed)).problems)


def test_sound_ledgers_have_no_problem() -> None:
    report = check(_sound())
    assert report.problems == []
    assert (report.finished, report.paid_calls, report.extra_paid_calls, report.dead_letters) == (2, 2, 0, 1)


@pytest.mark.parametrize("results", [[_row("a")], [_row("a"), _row("b", status="claimed")]])
def test_i1_a_row_that_is_lost_or_never_ends(results: list[dict[str, Any]]) -> None:
    assert "I1: 1 ids without an end (b)" in _problems(results=results)


def test_i1_a_row_that_nobody_published() -> None:
    assert "1 nobody published" in _problems(results=[_row("a"), _row("b"), _row("c")])


def test_i1_a_letter_that_is_missing_and_one_too_many() -> None:
    assert "I1: 1 unreadable messages without a letter, 0 too many" in _problems(letters=[])
    more = [{"__connect.errors.partition": b"0", "__connect.errors.offset": place} for place in (b"2", b"1")]
    assert "0 unreadable messages without a letter, 1 too many" in _problems(letters=more)


def test_i2_a_row_twice() -> None:
    assert "I2: 1 rows more than ids" in _problems(results=[_row("a"), _row("b"), _row("b")])


@pytest.mark.parametrize("wrong", [{"result": "another"}, {"fingerprint": "older"}])
def test_i2_a_row_with_another_answer_or_version(wrong: dict[str, str]) -> None:
    assert "I2: 1 rows do not hold the answer" in _problems(results=[_row("a"), _row("b", **wrong)])


def test_i2_an_end_that_changes_afterwards() -> None:
    again = _change("a", 9, "succeeded", "succeeded")
    assert "I2: 1 ends changed afterwards (a)" in _problems(history=[*_sound().history, again])
    gone = _change("a", 9, "succeeded", None)
    assert "I2: 1 ends changed afterwards (a)" in _problems(history=[*_sound().history, gone])


def test_i2_a_newer_version_may_take_an_ends_place_and_an_older_one_may_not() -> None:
    newer = _change("a", 9, "succeeded", "claimed", new_fingerprint="g", new_offset=7)
    assert "I2" not in _problems(history=[*_sound().history, newer])
    older = _change("a", 9, "succeeded", "claimed", new_fingerprint="g", old_offset=7, new_offset=3)
    assert "I2" in _problems(history=[*_sound().history, older])


def test_i3_a_paid_call_that_nothing_explains() -> None:
    twice = [*_sound().calls, _call("a", 2)]
    record = [*_sound().attempts, {"id": "a", "billed": "maybe"}]
    assert "I3: 1 extra paid calls, of which kills and spoiled answers explain 0" in _problems(
        calls=twice, attempts=record
    )
    assert _problems(calls=twice, attempts=record, paid_faults=1) == ""


def test_i3_a_kill_explains_what_its_worker_had_begun_and_no_more() -> None:
    twice = [*_sound().calls, _call("a", 5)]
    record = [*_sound().attempts, {"id": "a", "billed": "maybe"}]
    taken_over = [
        _change("a", 0.5, None, "claimed"),
        _change("a", 4, "claimed", "claimed", worker="host-12-cd", old_fence=1, new_fence=2),
    ]

    def killed(at: float, pid: int) -> str:
        return _problems(
            calls=twice, attempts=record, history=taken_over, halts=[Halt("kill", 1_000 + at, pid, in_flight=9)]
        )

    assert killed(2, 11) == ""
    assert "explain 0" in killed(2, 12), "another worker's kill"
    assert "explain 0" in killed(0.7, 11), "killed before the call began"
    assert "explain 0" in killed(4.5, 11), "killed after another has taken over"


def test_i3_a_drained_stop_explains_nothing() -> None:
    drained = Halt("stop", 1_002, 11, in_flight=1, exit_code=0)
    assert not drained.loses_calls
    assert replace(drained, exit_code=1).loses_calls


def test_i3_a_paid_call_without_a_line_in_attempts() -> None:
    assert "I3: 1 paid calls stand in no line of attempts (b)" in _problems(
        attempts=[{"id": "a", "billed": "yes"}, {"id": "b", "billed": "no"}]
    )


def test_i4_an_early_commit_and_one_that_was_never_seen() -> None:
    assert "I4: 1 offsets committed before their end" in _problems(samples=Samples(taken=5, checked=3, early=["a"]))
    assert "I4: only 2 of 3 messages were seen committed" in _problems(samples=Samples(taken=5, checked=2))


def test_i5_recovery_is_measured_from_the_end_of_the_fault() -> None:
    steady = [_row(f"r{n}", completed_at=_at(n / 10)) for n in range(300) if not 100 <= n < 130]
    fault = Fault("away", began=1_010, ended=1_012)
    report = check(replace(_sound(), results=steady, faults=[fault]))
    assert report.resumed_after == {"away": 1.0}
    assert report.back_after == {"away": 1.0}
    slow = [row for n, row in enumerate(steady) if n < 100 or n % 2]
    assert check(replace(_sound(), results=slow, faults=[fault])).back_after == {"away": None}


def test_i6_a_worker_that_grows() -> None:
    assert "I6" in _problems(samples=Samples(taken=5, checked=3, peak_rss_mb=900.0))
    assert "I6" in _problems(samples=Samples(taken=5, checked=3, peak_fds=5_000))


def test_i7_a_canary_that_was_shown() -> None:
    assert "I7: secrets or prompts shown: worker-0.log: sk-" in _problems(canary_hits=["worker-0.log: sk-"])


def test_i7_a_search_that_had_nothing_to_look_through() -> None:
    assert "I7: nothing to look through: log of worker" in _problems(searched={"table results": 700})


def test_i8_a_run_that_did_too_little() -> None:
    assert "I8: 2 of 3 planned" in _problems(planned=3)
    assert "I8" in _problems(calls=[])
