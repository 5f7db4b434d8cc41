"""Rules and limits of a script at work."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime

import pytest

from tests.integration.simulator.client import (
    ask,
    connect,
    exchange,
    receive,
    request_bytes,
    timed,
    until,
)
from tests.simulated import Simulated


def test_attempts_count_the_calls_of_an_id(sim: Simulated) -> None:
    sim.set_script([{"match": {"ids": ["x"], "attempts": [1, 2]}, "status": 503}])
    assert [ask(sim, row="x").status for _ in range(3)] == [503, 503, 200]
    assert ask(sim, row="y").status == 200
    assert sim.stats()["rules"] == {"0": 2, "default": 2}


def test_the_same_seed_fails_the_same_rows_and_another_seed_others(sim: Simulated) -> None:
    def failed(seed: str) -> set[int]:
        sim.set_script({"seed": seed, "rules": [{"match": {"probability": 0.3}, "status": 500}]})
        sim.reset()
        with connect(sim) as sock:
            return {at for at in range(60) if exchange(sock, request_bytes(row=f"r-{at}")).status == 500}

    first = failed("a")
    assert first == failed("a")
    assert first != failed("b")
    assert 5 < len(first) < 35


def test_times_and_stretches_of_time_end(sim: Simulated) -> None:
    sim.set_script([{"match": {"times": 2}, "status": 500}, {"match": {"until_s": 1.0}, "status": 503}])
    sim.reset()
    assert [ask(sim).status for _ in range(3)] == [500, 500, 503]
    until(lambda: ask(sim).status == 200)


def test_latency_is_waited(sim: Simulated) -> None:
    sim.set_script([{"latency_ms": {"min": 200, "max": 250}}])
    took = timed(lambda: ask(sim))
    assert 0.2 <= took < 2


def test_a_rate_above_the_limit_is_a_429_that_names_the_wait(sim: Simulated) -> None:
    sim.set_script({"limits": [{"requests_per_minute": 3, "window_s": 1.5, "retry_after": "ms"}]})
    sim.reset()
    with connect(sim) as sock:
        answers = [exchange(sock, request_bytes(row=f"r-{at}")) for at in range(4)]
        assert [got.status for got in answers] == [200, 200, 200, 429]
        wait_ms = int(answers[3].headers["retry-after-ms"])
        assert 500 < wait_ms <= 1500
        assert int(answers[3].headers["Retry-After"]) in (1, 2)
        assert answers[3].json["error"] == {
            "message": "Rate limit reached",
            "type": "requests",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        time.sleep(wait_ms / 1000)
        assert exchange(sock, request_bytes()).status == 200
    stats = sim.stats()
    assert (stats["limited"], stats["answers"], stats["max_in_flight"]) == (1, 4, 1)


@pytest.mark.parametrize("form", ["s", "fraction", "date", "none"])
def test_the_wait_comes_in_the_form_asked_for(sim: Simulated, form: str) -> None:
    sim.set_script({"limits": [{"requests_per_minute": 1, "window": "fixed", "retry_after": form}]})
    ask(sim)
    value = ask(sim).headers["Retry-After"]
    if form == "none":
        assert value is None
    elif form == "date":
        assert 0 <= parsedate_to_datetime(value).timestamp() - time.time() <= 61
    else:
        assert 0 < float(value) <= 60
        assert ("." in value) is (form == "fraction")


def test_tokens_are_limited_by_what_a_call_reserves(sim: Simulated) -> None:
    sim.set_script({"limits": [{"tokens_per_minute": 250}]})
    assert [ask(sim, "x" * 200, max_tokens=50).status for _ in range(3)] == [200, 200, 429]
    refused = ask(sim, "x" * 200, max_tokens=50)
    assert refused.json["error"]["type"] == "tokens"
    assert ask(sim, "x" * 200).status == 200


def test_a_bucket_admits_its_burst_and_then_its_rate(sim: Simulated) -> None:
    sim.set_script({"limits": [{"requests_per_minute": 1200, "window": "bucket", "burst": 5}]})
    started, answered = time.monotonic(), 0
    with connect(sim) as sock:
        while time.monotonic() - started < 1.0:
            answered += exchange(sock, request_bytes()).status == 200
    took = time.monotonic() - started
    assert 5 + 20 * took - 3 <= answered <= 5 + 20 * took + 1


@pytest.mark.parametrize("over", ["429", "503"])
def test_calls_above_the_places_are_turned_away(sim: Simulated, over: str) -> None:
    sim.set_script({"limits": [{"max_concurrent": 2, "over": over}], "rules": [{"latency_ms": 500}]})
    with ThreadPoolExecutor(5) as pool:
        status = sorted(got.status for got in pool.map(lambda at: ask(sim, row=f"r-{at}"), range(5)))
    assert status == [200, 200, int(over), int(over), int(over)]
    assert sim.stats()["max_in_flight"] == 2


def test_calls_above_the_places_can_queue(sim: Simulated) -> None:
    sim.set_script({"limits": [{"max_concurrent": 2, "over": "queue"}], "rules": [{"latency_ms": 100}]})
    with ThreadPoolExecutor(6) as pool:
        took = timed(lambda: list(pool.map(lambda at: ask(sim, row=f"r-{at}"), range(6))))
    assert took >= 0.3
    assert sim.stats()["answers"] == 6


def test_a_client_that_leaves_the_queue_frees_its_place(sim: Simulated) -> None:
    sim.set_script({"limits": [{"max_concurrent": 1, "over": "queue"}], "rules": [{"latency_ms": 300}]})
    with connect(sim) as first, connect(sim) as second:
        first.sendall(request_bytes(row="first"))
        until(lambda: sim.stats()["in_flight"] == 1)
        second.sendall(request_bytes(row="second"))
        until(lambda: sim.stats()["in_flight"] == 2)
        second.close()
        assert receive(first).status == 200
    assert ask(sim, row="third").status == 200
    assert sim.stats(ids=True)["ids"]["second"] == {"calls": 1, "billed": 0}


def test_places_follow_their_schedule(sim: Simulated) -> None:
    schedule = [{"at_s": 0, "max": 0}, {"at_s": 1, "max": 4}]
    sim.set_script({"limits": [{"max_concurrent": schedule, "over": "queue"}]})
    sim.reset()
    started = time.monotonic()
    assert ask(sim).status == 200
    assert 0.8 < time.monotonic() - started < 5
