"""One fault of the endpoint at a time: limits, errors, a brown-out, its death, hangs, broken bodies, a wrong key."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.conftest import Scale
from tests.chaos.invariants import Report
from tests.chaos.manifest import marked
from tests.chaos.servers import Servers
from tests.chaos.world import World, replaced, world
from tests.fleet import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]
Passes = Callable[..., Report]
Rule = dict[str, Any]


def _run(made: World, messages: int, workers: int = 2) -> None:
    made.fleet.start(workers)
    made.publisher.publish(marked(messages))
    made.settle()


@pytest.mark.parametrize(
    "header", [{"Retry-After": "1"}, {"retry-after-ms": "700"}, {}], ids=["seconds", "milliseconds", "absent"]
)
def test_limits_are_waited_out_and_cost_no_row(
    header: dict[str, str], shared: Servers, tmp_path: Path, passes: Passes
) -> None:
    limited = {"name": "limited", "match": {"probability": 0.02}, "status": 429, "headers": header}
    with world(shared, tmp_path, replaced([limited])) as made:
        _run(made, 500)
        hits = made.endpoint.stats()["rules"]["limited"]
        report = passes(made.report(500), f"{hits} refusals")
    assert hits >= 3
    assert not report.failed
    assert report.extra_paid_calls == 0


def test_a_rate_of_the_whole_fleet_is_found(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    script: dict[str, Any] = {
        "limits": [{"requests_per_minute": 1800, "window": "bucket", "burst": 15}],
        "rules": [{"latency_ms": 100}],
    }
    with world(shared, tmp_path, script) as made:
        _run(made, 600)
        stats = made.endpoint.stats()
        report = passes(made.report(600), f"{stats['limited']} refusals for 600 answers at 30 a second")
    assert not report.failed
    assert report.extra_paid_calls == 0


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_errors_of_one_call_in_ten_cost_little(
    status: int, shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    failing = {"name": "failing", "match": {"probability": 0.1}, "status": status, "body": "<html>no</html>"}
    with world(shared, tmp_path, replaced([failing | {"content_type": "text/html"}])) as made:
        _run(made, scale.single)
        calls = made.endpoint.stats()["calls"]
        report = passes(made.report(scale.single), f"{calls} calls")
    assert calls / scale.single <= 1.2
    assert sum(report.failed.values()) <= scale.single * 0.002
    assert report.extra_paid_calls == 0


def test_a_brown_out_and_an_outage_write_no_row_off(
    shared: Servers, tmp_path: Path, scale: Scale, passes: Passes
) -> None:
    brown = {"match": {"probability": 0.5}, "status": 500}
    with world(shared, tmp_path, replaced([], 200)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(scale.single), per_second=25)
        made.wait_for_ends(50)
        made.endpoint.set_script(replaced([brown], 200))
        time.sleep(10)
        with made.fault("outage"):
            made.endpoint.set_script({"rules": [{"status": 500}]})
            time.sleep(25)
            before = made.endpoint.stats()["calls"]
            time.sleep(5)
            assert made.endpoint.stats()["calls"] - before <= 4, "the circuits are open"
            made.endpoint.set_script(replaced([], 200))
        made.settle()
        report = passes(made.report(scale.single))
    # In a brown-out the endpoint does answer, so a row may meet four failures in a row.
    assert sum(report.failed.values()) <= scale.single * 0.05
    assert report.extra_paid_calls == 0
    resumed = report.resumed_after["outage"]
    assert resumed is not None
    assert resumed <= 60


def test_an_endpoint_that_dies_and_comes_back_on_the_same_port(
    shared: Servers, tmp_path: Path, passes: Passes
) -> None:
    with world(shared, tmp_path, replaced([], 200)) as made:
        made.fleet.start(2)
        made.publisher.trickle(marked(700), per_second=25)
        made.wait_for_ends(80)
        for seconds in (1, 8):
            with made.fault(f"endpoint dead for {seconds} s"):
                made.endpoint.kill()
                time.sleep(seconds)
                made.endpoint.start()
                made.endpoint.set_script(replaced([], 200))
            made.wait_for_ends(made.ended() + 100)
        made.settle()
        report = passes(made.report(700))
    assert not report.failed
    assert report.extra_paid_calls == 0


def test_hangs_and_trickles_end_at_their_time_limits(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    """Each is asked once more, as it may have been billed; the slots are free again."""
    hangs = [f"r-{n}" for n in range(0, 40, 4)]
    slow = [f"r-{n}" for n in range(1, 41, 4)]
    rules: list[Rule] = [
        {"name": "hang", "match": {"ids": hangs, "attempts": [1]}, "hang": True},
        {
            "name": "paid: trickle",
            "match": {"ids": slow, "attempts": [1]},
            "trickle": {"bytes": 1, "every_ms": 500, "from": "head"},
        },
    ]
    models = tmp_path / "models.yaml"
    with world(shared, tmp_path, replaced(rules), MODELS_FILE=str(models), CHAOS_KEY="sk-none") as made:
        models.write_text(_models(made.endpoint.base_url, read=2, total=6))
        began = time.monotonic()
        _run(made, 300)
        took = time.monotonic() - began
        report = passes(made.report(300), f"{took:.0f} s")
        timeouts = made.fleet.rows("attempts", "outcome = 'timeout'")
    assert {line["id"] for line in timeouts} == {*hangs, *slow}
    assert {line["billed"] for line in timeouts} == {"maybe"}
    assert all(line["latency_ms"] < 7_500 for line in timeouts)
    assert not report.failed
    assert took < 60


def test_broken_bodies_are_asked_once_more_and_no_more(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    faults: list[Rule] = [
        {"close": "mid_body", "chunked": True},
        {"close": "mid_headers", "bill": True},
        {"close": "after_request", "reset": True, "bill": True},
        {"body": '{"choices": ['},
        {"wrong_content_length": 9_999},
        {"json": {"choices": []}},
        {"body": "<html>login</html>", "content_type": "text/html"},
    ]
    ids = [[f"r-{n}" for n in range(at, 200, 20)] for at in range(len(faults))]
    firsts: list[Rule] = [{"match": {"ids": some, "attempts": [1]}} for some in ids]
    rules: list[Rule] = [{"name": f"paid: {at}", **firsts[at], **fault} for at, fault in enumerate(faults)]
    forever: Rule = {"name": "paid: for ever", "match": {"ids": ["r-15", "r-16"]}, "json": {"choices": []}}
    with world(shared, tmp_path, replaced([*rules, forever])) as made:
        _run(made, 200)
        calls = made.endpoint.stats(ids=True)["ids"]
        report = passes(made.report(200))
    assert report.failed == {"malformed_response": 2}
    assert {calls[id_]["calls"] for chosen in ids for id_ in chosen} == {2}
    assert {calls["r-15"]["calls"], calls["r-16"]["calls"]} == {2}


def test_huge_and_inflating_bodies_do_not_fill_the_memory(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    rules: list[Rule] = [
        {"name": "paid: 50 MB", "match": {"ids": [f"r-{n}" for n in range(8)]}, "big_body": 50_000_000},
        {"name": "paid: bomb", "match": {"ids": [f"r-{n}" for n in range(8, 16)]}, "gzip_bomb": 200_000_000},
        {"name": "paid: endless", "match": {"ids": ["r-16", "r-17"]}, "big_body": 10**14, "chunked": True},
    ]
    with world(shared, tmp_path, replaced(rules)) as made:
        _run(made, 200, workers=1)
        report = passes(made.report(200))
    assert report.failed == {"malformed_response": 18}


def test_answers_without_an_answer_end_by_their_reason(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    rules: list[Rule] = [
        {
            "match": {"ids": ["r-0"], "attempts": [1]},
            "json": {"choices": None, "error": {"code": 429}},
            "bill": False,
        },
        {"match": {"ids": ["r-1"]}, "finish_reason": "length"},
        {"match": {"ids": ["r-2"]}, "message": {"role": "assistant"}, "finish_reason": "content_filter"},
        {"match": {"ids": ["r-3"]}, "omit": ["usage"]},
        {"match": {"ids": ["r-4"]}, "status": 400, "error": {"code": "context_length_exceeded"}},
        {"match": {"ids": ["r-5"]}, "status": 400, "error": {"code": "invalid_value"}},
    ]
    with world(shared, tmp_path, replaced(rules)) as made:
        _run(made, 100)
        calls = made.endpoint.stats(ids=True)["ids"]
        report = passes(made.report(100))
    assert report.failed == {"truncated": 1, "filtered": 1, "too_long": 1, "rejected_request": 1}
    assert {id_: entry["calls"] for id_, entry in calls.items() if entry["calls"] > 1} == {"r-0": 2}


def test_a_wrong_key_stops_the_fleet_and_not_the_data(shared: Servers, tmp_path: Path, passes: Passes) -> None:
    refused: Rule = {"status": 401, "error": {"code": "invalid_api_key"}}
    with world(shared, tmp_path, replaced([], 100)) as made:
        workers = made.fleet.start(3)
        made.publisher.trickle(marked(500), per_second=25)
        made.wait_for_ends(60)
        made.endpoint.set_script({"rules": [refused]})
        before = made.endpoint.stats()["calls"]
        wait_for(lambda: all(worker.get("/readyz")[0] == 503 for worker in workers), 30)
        time.sleep(3)
        assert made.endpoint.stats()["calls"] - before <= 3 * 16, "no more than was in flight"
        made.endpoint.set_script(replaced([], 100))
        made.settle()
        report = passes(made.report(500))
    assert not report.failed
    assert report.extra_paid_calls == 0


def _models(base_url: str, read: float, total: float) -> str:
    limits = f"{{connect: 2, read: {read}, total: {total}}}"
    endpoint = f"{{base_url: {base_url}, model: simulated}}"
    return f"models:\n  simulated:\n    endpoints: [{endpoint}]\n    timeouts: {limits}\n"
